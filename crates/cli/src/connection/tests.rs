use clap::Parser;

use super::*;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    server: ServerArgs,
}

#[test]
fn a_token_goes_to_its_own_server_and_where_it_is_typed_for() {
    let sent = |arguments: &[&str], server: &str| {
        let server_args = Cli::parse_from([&["handback"], arguments].concat()).server;
        server_args.token_for(&Url::parse(server).unwrap()).map(str::to_owned)
    };
    let typed = ["--url", "http://own.example", "--token", "t"];
    assert_eq!(sent(&typed, "http://other.example/agui").as_deref(), Some("t"));
    assert_eq!(sent(&["--token", ""], "http://other.example/agui"), None);
    let mut server_args = Cli::parse_from(["handback", "--url", "http://own.example"]).server;
    server_args.token = Some(Token { text: "t".to_owned(), is_typed: false });
    for (server, expected) in [
        ("http://own.example:80/agui/writer", Some("t")),
        ("http://own.example:8080/agui", None),
        ("https://own.example/agui", None),
        ("http://own.example.evil/agui", None),
    ] {
        assert_eq!(server_args.token_for(&Url::parse(server).unwrap()), expected, "{server}");
    }
}
