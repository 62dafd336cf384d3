//! Compares names that people spell differently, or wrong.

/// A name in lower case, without the characters between words.
pub(super) fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).map(|c| c.to_ascii_lowercase()).collect()
}

/// The candidate that is nearest to the name, if less than a third of its letters differ.
pub(super) fn nearest<'a>(name: &str, candidates: &'a [String]) -> Option<&'a String> {
    let name = plain(name);
    let measured = candidates.iter().map(|candidate| (distance(&name, &plain(candidate)), candidate));
    measured.min().filter(|(distance, _)| distance * 3 < name.len()).map(|(_, candidate)| candidate)
}

/// How many letters to insert, delete or replace to make one of the other (Levenshtein).
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.chars().count()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in to.chars().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}
