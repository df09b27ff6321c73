use super::*;

fn parse(text: &str) -> ProfileSettings {
    ProfileSettings::parse("test", text).unwrap()
}

#[test]
fn every_built_in_profile_resolves() {
    for name in BUILT_IN {
        let profile = ProfileSettings::load(name).unwrap().resolve().unwrap();
        assert!(profile.read.latency.body.is_some(), "{name} delays reads");
    }
}

#[test]
fn every_broken_rule_is_reported_at_once() {
    let settings = parse(
        "scale = 0\n[read]\nmedian_ms = 5\np95_ms = 2\nmax_parallel = 0\n\
         [read.tail]\nprobability = 2\nmin_ms = 10\nmax_ms = 5\nalpha = 1\n\
         [metadata]\nbytes_per_s = 10\n\
         [[fault]]\nkind = \"eio\"\nprobability = 7\n",
    );

    let Err(Error::BrokenRules(rules)) = settings.resolve() else {
        panic!("must be refused")
    };
    let names = [
        "`scale`",
        "`read.p95_ms`",
        "`read.tail.probability`",
        "`read.tail.max_ms`",
        "`read.max_parallel`",
        "`metadata` moves no bytes",
        "`fault[0]`",
    ];
    assert_eq!(rules.len(), names.len(), "{rules:#?}");
    for name in names {
        assert!(
            rules.iter().any(|rule| rule.contains(name)),
            "{name} is named in {rules:#?}"
        );
    }
}

#[test]
fn unknown_fields_are_refused_by_name() {
    for text in [
        "sed = 1",
        "[read]\nmedian = 1",
        "[read.tail]\nprobability = 0\nx = 1",
        "[[fault]]\nkind = \"fire\"",
    ] {
        let error = ProfileSettings::parse("test", text)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("unknown") || error.contains("missing"),
            "{error}"
        );
    }
}

#[test]
fn scale_multiplies_times_and_divides_rates() {
    let text = "[read]\nmedian_ms = 10\nms_per_mib = 2\nbytes_per_s = 1000\n\
                [read.tail]\nprobability = 0.1\nmin_ms = 100\nmax_ms = 200\nalpha = 1\n";
    let profile = parse(text).scaled(0.1).resolve().unwrap();

    let body = profile.read.latency.body.unwrap();
    let tail = profile.read.latency.tail.unwrap();
    assert_eq!(body.median, Duration::from_millis(1));
    assert_eq!(
        (tail.min, tail.max),
        (Duration::from_millis(10), Duration::from_millis(20))
    );
    assert_eq!(tail.probability, 0.1);
    assert_eq!(profile.read.bytes_per_s, Some(10_000.0));
    assert!((profile.read.seconds_per_byte * f64::from(1 << 20) - 0.0002).abs() < 1e-12);
}

#[test]
fn assignments_set_typed_fields_and_refuse_the_rest_by_name() {
    let settings = parse("[read]\nmedian_ms = 1\nsigma = 0.5\n");

    let next = settings
        .assign(&[
            "read.median_ms=5".into(),
            "read.p95_ms = 9".into(),
            "read.bytes_per_s=100".into(),
        ])
        .unwrap();
    assert_eq!(
        (next.read.median_ms, next.read.p95_ms, next.read.sigma),
        (5.0, Some(9.0), None)
    );
    assert_eq!(next.read.bytes_per_s, Some(100));
    let none = next.assign(&["read.bytes_per_s=none".into()]).unwrap();
    assert_eq!(none.read.bytes_per_s, None);

    let wrong = [
        "read.medain_ms=5",
        "read.median_ms=\"x\"",
        "read",
        "seed.x=1",
        "read.max_parallel=-1",
    ];
    let error = settings.assign(&wrong.map(String::from)).unwrap_err();
    let Error::BrokenRules(rules) = error else {
        panic!("{error}")
    };
    assert_eq!(rules.len(), wrong.len(), "{rules:#?}");
}

#[test]
fn a_missing_profile_says_which_are_built_in() {
    let error = ProfileSettings::load("lustr").unwrap_err().to_string();
    assert!(
        error.contains("lustre, vast, nvme") && error.contains("`lustr`"),
        "{error}"
    );
}
