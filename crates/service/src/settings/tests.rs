use super::*;

fn resolve(layers: &[(Source, ServeSettings)]) -> Result<ServePlan, PlanError> {
    ServePlan::resolve(layers, Some("/c".into()), |_| 1000)
}

#[test]
fn every_broken_rule_is_reported_at_once() {
    let text = "[serve]\ncache = \"rel\"\ncapacity = \"much\"\npolicy = \"fifo\"\norigin_reads = 0\nlook_ahead_rate = \"0\"";
    let settings = ServeSettings::from_toml(text).unwrap();
    let PlanError(broken) = resolve(&[(Source::File, settings)]).unwrap_err();
    assert_eq!(
        broken,
        [
            "`cache` must be an absolute path: `rel`",
            "`capacity` must be a size such as `500 GiB`: `much`",
            "`policy` must be `plan`, `lru` or `pin`: `fifo`",
            "`origin_reads` must be between 1 and 1024: 0",
            "`look_ahead_rate` must be bytes a second, such as `2 GB`: `0`",
        ]
    );
    let unknown = ServeSettings::from_toml("[serve]\ncapasity = \"1\"").unwrap_err();
    assert!(unknown.to_string().contains("capasity"), "{unknown}");
}

#[test]
fn stronger_layers_win_and_say_so() {
    let env = ServeSettings::from_env(|name| {
        (name == "FOREBAY_CAPACITY" || name == "FOREBAY_POLICY").then(|| {
            if name == "FOREBAY_POLICY" {
                "pin".into()
            } else {
                "2 KiB".into()
            }
        })
    });
    let flags = ServeSettings {
        capacity: Some("3kb".into()),
        ..ServeSettings::default()
    };
    let plan = resolve(&[
        (Source::CommandLine, flags),
        (Source::Environment, env.unwrap()),
    ])
    .unwrap();
    assert_eq!(
        (plan.cache.capacity_bytes, plan.cache.policy),
        (3000, Policy::Pin)
    );
    assert_eq!(plan.sources["capacity"], Source::CommandLine);
    assert_eq!(plan.sources["policy"], Source::Environment);
    assert_eq!(plan.sources["max_links"], Source::Default);
}

#[test]
fn without_a_word_the_cache_takes_what_is_free_but_a_twentieth() {
    let plan = resolve(&[]).unwrap();
    assert_eq!(
        (plan.cache.capacity_bytes, plan.cache.free_floor_bytes),
        (950, 50)
    );
}

#[test]
fn a_variable_that_is_no_number_is_refused_by_name() {
    let error =
        ServeSettings::from_env(|name| (name == "FOREBAY_MAX_LINKS").then(|| "many".into()));
    assert_eq!(
        error.unwrap_err().0,
        ["`FOREBAY_MAX_LINKS` must be a number: `many`"]
    );
}

#[test]
fn sizes_have_units_and_do_not_overflow() {
    for (text, bytes) in [
        ("0", 0),
        ("12", 12),
        ("5 GiB", 5 << 30),
        ("7kb", 7000),
        (" 1T ", 1 << 40),
    ] {
        assert_eq!(parse_bytes(text), Some(bytes), "{text}");
    }
    for text in ["", "GiB", "-1", "1.5 GB", "1 XB", "99999999999 TiB"] {
        assert_eq!(parse_bytes(text), None, "{text}");
    }
}
