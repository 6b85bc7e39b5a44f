// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! "did you mean": of names that clap does not know.

/// As a question for the end of a message, where one of the names is much like what was given.
pub fn did_you_mean<'a>(given: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    // Above what one letter has in common with a word that begins with it.
    const LEAST: f64 = 0.8;
    let given = given.to_lowercase();
    let likeness = |name: &str| match name.to_lowercase() {
        name if is_transposed(&given, &name) => 1.0,
        name => strsim::jaro(&given, &name),
    };
    let nearest = names.max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(nearest) > LEAST).then(|| format!("did you mean {nearest}?"))
}

/// Two neighbouring letters the wrong way round: Jaro finds little in common where the word is short.
pub fn is_transposed(given: &str, name: &str) -> bool {
    strsim::osa_distance(given, name) == 1 && strsim::levenshtein(given, name) == 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_understood_and_another_word_is_not() {
        let meant = |given| did_you_mean(given, ["gamma", "N", "delta"].into_iter());
        for (given, name) in [("gama", "gamma"), ("dleta", "delta"), ("n", "N"), ("Delta", "delta")]
        {
            assert_eq!(meant(given), Some(format!("did you mean {name}?")), "{given}");
        }
        assert_eq!(did_you_mean("gb", ["fs", "bg"].into_iter()), Some("did you mean bg?".into()));
        for given in ["g", "target", ""] {
            assert_eq!(meant(given), None, "{given}");
        }
        assert_eq!(did_you_mean("x", std::iter::empty()), None);
    }
}
