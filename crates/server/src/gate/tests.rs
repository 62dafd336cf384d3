use super::*;

#[test]
fn hosts_are_read_as_browsers_write_them() {
    for (authority, host) in [
        ("127.0.0.1:4096", "127.0.0.1"),
        ("LOCALHOST", "localhost"),
        ("[::1]:80", "::1"),
        ("user@evil.example:1", "evil.example"),
        ("", ""),
    ] {
        assert_eq!(host_of(authority), host, "{authority}");
    }
}

#[test]
fn loopback_is_recognised_and_what_only_looks_like_it_is_not() {
    for host in ["localhost", "localhost.", "app.localhost", "127.0.0.1", "127.1.2.3", "::1"] {
        assert!(is_loopback_host(host), "{host}");
    }
    for host in ["", "localhost.evil.example", "127.0.0.1.evil.example", "notlocalhost", "0.0.0.0", "10.0.0.1", "evil"]
    {
        assert!(!is_loopback_host(host), "{host}");
    }
}
