use super::*;

#[test]
fn the_lists_are_sorted() {
    for list in [SILENT, POLITE, WEAK, JOINTS] {
        assert!(list.is_sorted(), "{list:?}");
    }
}

#[test]
fn names_and_texts_are_split_into_words() {
    for (text, words) in [
        ("get_local-time.now:x", &["get", "local", "time", "now", "x"][..]),
        ("openUrl HTTPServer IPv6 aB", &["open", "Url", "HTTP", "Server", "I", "Pv6", "a", "B"]),
        ("what's  (up) 'Zwölf' ✨", &["what's", "up", "'Zwölf'"]),
        ("", &[]),
    ] {
        assert_eq!(split(text).collect::<Vec<_>>(), words, "{text}");
    }
}

#[test]
fn words_of_one_root_have_one_stem() {
    for family in [
        &["file", "files", "File", "file's", "'file'"][..],
        &["open", "opens", "opening", "opened"],
        &["take", "takes", "taking"],
        &["run", "runs", "running"],
        &["add", "adds", "adding", "added"],
        &["search", "searches", "searching"],
        &["query", "queries"],
        &["recursive", "recursively"],
        &["address", "addresses"],
    ] {
        let stems: Vec<String> = family.iter().map(|word| stem(word)).collect();
        assert!(stems.iter().all(|stem| *stem == stems[0]), "{family:?}: {stems:?}");
    }
    let apart = ["on", "off", "light", "list", "time", "text", "is", "status", "us", "a", "s", "red", "ring", "é"];
    let mut stems: Vec<String> = apart.iter().map(|word| stem(word)).collect();
    stems.sort();
    stems.dedup();
    assert_eq!(stems.len(), apart.len(), "{stems:?}");
}
