//! What may be meant by a name that is not known.

/// Names that are as like as this are offered; 1 is the same.
const ALIKE: f64 = 0.85;

/// Names that are offered at most.
const OFFERED: usize = 3;

/// Words that follow "there is no such name": the nearest of `known`, or all of them where none is
/// near.
#[must_use]
pub fn near(name: &str, known: &[&str]) -> String {
    let likeness = |one: &&str| strsim::jaro_winkler(name, one);
    let mut near: Vec<&str> = known.to_vec();
    near.retain(|one| likeness(one) >= ALIKE);
    near.sort_by(|one, other| likeness(other).total_cmp(&likeness(one)));
    near.truncate(OFFERED);
    if near.is_empty() {
        return format!("there are {}", known.join(", "));
    }
    format!("did you mean `{}`?", near.join("` or `"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_has_the_right_name_first() {
        let known = ["create_files", "list_files", "md5_check", "create_dataset"];
        for (slip, meant) in [
            ("creat_files", "create_files"),
            ("createfiles", "create_files"),
            ("list_file", "list_files"),
            ("mdcheck", "md5_check"),
        ] {
            let said = near(slip, &known);
            assert!(
                said.starts_with(&format!("did you mean `{meant}`")),
                "{said}"
            );
        }
        assert_eq!(
            near("x", &known),
            "there are create_files, list_files, md5_check, create_dataset"
        );
    }
}
