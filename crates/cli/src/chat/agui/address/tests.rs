use super::*;

#[test]
fn a_room_is_told_from_an_agent() {
    for (url, expected) in [
        ("http://a/agui", None),
        ("http://a/agui/writer", None),
        ("http://a/api/v1/rooms", None),
        ("http://a/api/v1/rooms/x/agui/thread", None),
        ("http://a/api/v1/rooms/x", Some(("http://a/", "x"))),
        ("http://a/api/v1/rooms/x/agui/", Some(("http://a/", "x"))),
        ("https://a:1/b/api/v1/rooms/x%20y/?q=1", Some(("https://a:1/b", "x y"))),
    ] {
        let found = room(&Url::parse(url).unwrap());
        let found = found.as_ref().map(|(server, room)| (server.as_str(), room.as_str()));
        assert_eq!(found, expected, "{url}");
    }
}
