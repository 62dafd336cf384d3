//! Texts that are shown to people.

/// The text, or its first characters and an ellipsis if it has more than `most`.
pub fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
