use forebay_cache::Policy;

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
fn a_variable_of_another_kind_is_refused_by_name() {
    let error = ServeSettings::from_env(|name| {
        let names = ["FOREBAY_MAX_LINKS", "FOREBAY_ENCRYPT_LINKS"];
        names.contains(&name).then(|| "many".into())
    });
    assert_eq!(
        error.unwrap_err().0,
        [
            "`FOREBAY_MAX_LINKS` must be a number: `many`",
            "`FOREBAY_ENCRYPT_LINKS` must be `true` or `false`: `many`"
        ]
    );
}
