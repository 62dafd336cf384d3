use super::*;

#[test]
fn columns_are_aligned_and_cells_are_one_line() {
    let rows = [["a", "first\nsecond"], ["längere", "\u{1b}[31mred"]].map(|row| row.map(str::to_owned));
    let table = Table::new(["ID", "TEXT"], "nothing", rows);
    assert_eq!(table.text(), "ID       TEXT\na        first…\nlängere  \u{fffd}[31mred");
}

#[test]
fn nothing_that_a_terminal_obeys_is_left() {
    let hostile = "a\u{1b}]0;title\u{7}b\u{9b}2Jc\u{8}d\re\u{202e}f\u{7f}\r\n\tg";
    assert_eq!(plain(hostile), "a\u{fffd}]0;title\u{fffd}b\u{fffd}2Jc\u{fffd}de\u{fffd}f\u{fffd}\n\tg");
    assert_eq!(plain("Grüße, 世界 👩\u{200d}🚀"), "Grüße, 世界 👩\u{200d}🚀");
    let json = json_line(&hostile).unwrap();
    assert!(!json.contains(is_obeyed), "{json:?}");
    assert_eq!(serde_json::from_str::<String>(&json).unwrap(), hostile);
    let raw = serde_json::value::RawValue::from_string("{\r\n\t\"a\": 1}".to_owned()).unwrap();
    assert_eq!(json_line(&raw).unwrap(), "{   \"a\": 1}");
}

#[test]
fn long_cells_are_cut() {
    assert_eq!(shorten(&"x".repeat(80)), "x".repeat(80));
    assert_eq!(shorten(&"x".repeat(81)), format!("{}…", "x".repeat(79)));
}
