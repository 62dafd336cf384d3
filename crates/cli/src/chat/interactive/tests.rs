use super::*;

#[test]
fn commands_are_told_from_messages() {
    for (line, expected) in [
        ("", None),
        ("hello there", None),
        ("/help", Some(("/help", ""))),
        ("/model  a/b ", Some(("/model", "a/b"))),
        ("/new  what day is it? ", Some(("/new", "what day is it?"))),
        ("/halp me", Some(("/halp", "me"))),
        ("/etc/hosts: what is that?", None),
        ("/", None),
    ] {
        assert_eq!(as_command(line), expected, "{line}");
    }
}
