//! The layers, the errors with their full text, and what is never shown.

mod agents;
mod data;
mod providers;
mod tools;

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::spelling::plain;
use super::*;

const HASH: &str = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF";
const SECRET: &str = "correct horse battery staple, and more";
const PEM: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n\
                   -----END PUBLIC KEY-----";

/// Two empty directories of one test: the working directory, and the user's.
struct Place {
    root: PathBuf,
    inputs: Inputs,
}

impl Place {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("handback-config-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let root = std::env::temp_dir().join(name);
        let (work, user) = (root.join("work"), root.join("user"));
        fs::create_dir_all(&work).unwrap();
        fs::create_dir_all(user.join("handback")).unwrap();
        let inputs = Inputs { working_directory: work, user_directory: Some(user), ..Inputs::default() };
        Self { root, inputs }
    }

    fn file(self, path: &str, text: &str) -> Self {
        fs::write(self.root.join(path), text).unwrap();
        self
    }

    fn toml(self, text: &str) -> Self {
        self.file("work/handback.toml", text)
    }

    fn json(self, text: &str) -> Self {
        self.file("work/handback.json", text)
    }

    fn config(mut self, path: &str) -> Self {
        self.inputs.file = Some(PathBuf::from(path));
        self
    }

    fn variable(mut self, name: &str, value: &str) -> Self {
        self.inputs.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    fn flag(mut self, key: &'static str, value: &str, name: &'static str) -> Self {
        self.inputs.flags.push(Flag { key, value: value.to_owned(), name });
        self
    }

    fn load(&self) -> Loaded {
        load(&self.inputs).unwrap()
    }

    /// The text of the error, with the directory that differs from run to run cut out.
    fn error(&self) -> String {
        load(&self.inputs).unwrap_err().to_string().replace(&format!("{}/", self.root.display()), "")
    }

    /// The warnings, without that directory.
    fn warnings(&self) -> Vec<String> {
        let root = format!("{}/", self.root.display());
        self.load().warnings.iter().map(|warning| warning.replace(&root, "")).collect()
    }

    /// Key, value and source of everything that is not a default.
    fn given(&self) -> Vec<[String; 3]> {
        let root = format!("{}/", self.root.display());
        let rows = self.load().rows().into_iter().filter(|row| row.source != "default");
        rows.map(|row| [row.key, row.value, row.source.replace(&root, "")]).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

#[test]
fn defaults() {
    let loaded = Place::new().load();
    assert_eq!(loaded.config, Config::default());
    assert_eq!(loaded.warnings, Vec::<String>::new());
    assert!(loaded.sources.is_empty());
    let rows = loaded.rows();
    assert!(rows.iter().all(|row| row.source == "default"));
    let rows: Vec<String> = rows.into_iter().map(|row| format!("{} = {}", row.key, row.value)).collect();
    let expected = [
        "agui.onDisconnect = cancel",
        "allowedHosts = ",
        "auth.keys = ",
        "auth.publicKey = ",
        "auth.tokenSecret = ",
        "clientTools.approvalTimeout = 300000",
        "clientTools.defaultTimeout = 30000",
        "clientTools.keepaliveInterval = 30000",
        "cors.origins = ",
        "data = ",
        "database = ",
        "durability = process",
        "ephemeral = false",
        "limits.bodyBytes = 4194304",
        "limits.bodyTimeout = 30000",
        "limits.callBytesOnDisk = 4294967296",
        "limits.callsKeptFor = 604800000",
        "limits.callsOnDisk = 1000000",
        "limits.callsPerClient = 1024",
        "limits.callsPerMinute = 100",
        "limits.clients = 100000",
        "limits.connections = 10240",
        "limits.connectionsPerClient = 64",
        "limits.drainTimeout = 10000",
        "limits.eventBuffer = 8192",
        "limits.eventBytes = 67108864",
        "limits.executePerMinute = 0",
        "limits.headerTimeout = 10000",
        "limits.historyBytes = 268435456",
        "limits.inputDepth = 128",
        "limits.largestGrace = 300000",
        "limits.largestTimeout = 86400000",
        "limits.newConnectionsPerPeer = 1024",
        "limits.partsPerMessage = 256",
        "limits.preferredConnection = 10000",
        "limits.queuedPrompts = 8",
        "limits.rememberedCalls = 100000",
        "limits.rememberedFor = 600000",
        "limits.repeatedCalls = 3",
        "limits.replay = 256",
        "limits.schemaBytes = 65536",
        "limits.schemaDepth = 32",
        "limits.sessionBytes = 34359738368",
        "limits.sessionBytesPerClient = 4294967296",
        "limits.sessionsPerClient = 100000",
        "limits.sessionsPerTool = 10000",
        "limits.stallTimeout = 10000",
        "limits.steps = 50",
        "limits.storedBytes = 67108864",
        "limits.storedCalls = 10000",
        "limits.storedMessageBytes = 1073741824",
        "limits.storedSessions = 100000",
        "limits.toolOutput = 65536",
        "limits.toolsPerClient = 128",
        "limits.unconnectedTools = 300000",
        "limits.userTimeout = 20000",
        "listen = 127.0.0.1:4096",
        "log = info",
        "logFormat = text",
        "model = demo/scripted",
    ];
    assert_eq!(rows, expected);
}

#[test]
fn every_default_is_in_its_range() {
    let json = serde_json::to_string(&Config::default()).unwrap();
    assert_eq!(Place::new().json(&json).load().config, Config::default());
}

#[test]
fn later_layers_win_key_by_key() {
    let place = Place::new()
        .toml("log = \"a\"\n[limits]\nreplay = 1\nclients = 1\nconnections = 1\n")
        .variable("HANDBACK_LIMITS_CLIENTS", "2")
        .variable("HANDBACK_LIMITS_CONNECTIONS", "2")
        .flag("limits.connections", "3", "--connections");
    let expected = [
        ["limits.clients", "2", "environment HANDBACK_LIMITS_CLIENTS"],
        ["limits.connections", "3", "flag --connections"],
        ["limits.replay", "1", "file work/handback.toml"],
        ["log", "a", "file work/handback.toml"],
    ];
    assert_eq!(place.given(), expected);
    let limits = Limits { clients: 2, connections: 3, replay: 1, ..Limits::default() };
    assert_eq!(place.load().config, Config { log: "a".to_owned(), limits, ..Config::default() });
}

#[test]
fn a_value_that_is_overridden_is_not_checked() {
    let place = Place::new().toml("listen = \"nonsense\"").flag("listen", "127.0.0.1:1", "--listen");
    assert_eq!(place.given(), [["listen", "127.0.0.1:1", "flag --listen"]]);
}

#[test]
fn a_list_is_replaced_as_a_whole() {
    let place = Place::new().toml("allowedHosts = [\"a\", \"b\"]").variable("HANDBACK_ALLOWED_HOSTS", "c , d,");
    assert_eq!(place.given(), [["allowedHosts", "c, d", "environment HANDBACK_ALLOWED_HOSTS"]]);
}

#[test]
fn the_first_file_that_exists_is_taken() {
    let mut place = Place::new().file("user/handback/handback.json", r#"{"log": "user json"}"#);
    assert_eq!(place.given(), [["log", "user json", "file user/handback/handback.json"]]);
    place = place.json(r#"{"log": "work json"}"#);
    assert_eq!(place.given(), [["log", "work json", "file work/handback.json"]]);
    place = place.file("other.toml", "log = \"other\"").config("../other.toml");
    assert_eq!(place.given(), [["log", "other", "file work/../other.toml"]]);
}

#[test]
fn the_users_toml_is_found() {
    let place = Place::new().file("user/handback/handback.toml", "log = \"user toml\"");
    assert_eq!(place.given(), [["log", "user toml", "file user/handback/handback.toml"]]);
}

#[test]
fn without_a_user_directory_only_the_working_directory_is_searched() {
    let mut place = Place::new().file("user/handback/handback.toml", "log = \"user toml\"");
    place.inputs.user_directory = None;
    assert_eq!(place.load().config, Config::default());
}

#[test]
fn files_that_cannot_be_used() {
    let cases = [
        (
            Place::new().toml("").json("{}"),
            "work/handback.toml and work/handback.json are both present; keep one of them",
        ),
        (
            Place::new().file("user/handback/handback.toml", "").file("user/handback/handback.json", "{}"),
            "user/handback/handback.toml and user/handback/handback.json are both present; keep one of them",
        ),
        (
            Place::new().config("absent.toml"),
            "cannot read file work/absent.toml: No such file or directory (os error 2)",
        ),
        (
            Place::new().file("work/a.yaml", "").config("a.yaml"),
            "file work/a.yaml: the name of a configuration file must end in .toml or .json",
        ),
        (
            Place::new().toml("log = \"info\"\n[auth]\n  tokenSecret = \"geheim\n"),
            "file work/handback.toml: invalid basic string, expected `\"` at line 3 column 24",
        ),
        (Place::new().toml("log = \"a\"\nlog = \"b\"\n"), "file work/handback.toml: duplicate key at line 2 column 1"),
        (Place::new().json("{\n  \"log\": }"), "file work/handback.json: expected value at line 2 column 10"),
        (Place::new().json("[5]"), "file work/handback.json: the whole: found a list, expected a table of keys"),
    ];
    for (place, expected) in cases {
        assert_eq!(place.error(), expected);
    }
}

#[test]
fn a_byte_order_mark_and_empty_files_are_fine() {
    assert_eq!(Place::new().json("\u{feff}{}").load().config, Config::default());
    assert_eq!(Place::new().toml("\u{feff}# nothing\n[limits]\n").load().config, Config::default());
}

#[test]
fn unknown_keys() {
    let cases = [
        (
            Place::new().toml("[cors]\norigin = []"),
            "file work/handback.toml: unknown key cors.origin (did you mean origins?); allowed here: origins",
        ),
        (
            Place::new().toml("client_tools.defaultTimeout = 5"),
            "file work/handback.toml: unknown key client_tools (did you mean clientTools?); allowed here: listen, \
             data, database, ephemeral, durability, model, providers, agents, tools, clientTools, agui, auth, cors, allowedHosts, log, \
             logFormat, limits",
        ),
        (
            Place::new().json(r#"{"auth": {"x.`, expected ` y": "geheim"}}"#),
            "file work/handback.json: unknown key auth.\"x.`, expected ` y\"; allowed here: keys, tokenSecret, \
             publicKey",
        ),
        (
            Place::new().toml("[limits]").flag("limits.replays.now", "1", "--replays"),
            "flag --replays: unknown key limits.replays (did you mean replay?); allowed here: callsPerMinute, \
             executePerMinute, toolsPerClient, sessionsPerTool, schemaBytes, schemaDepth, bodyBytes, callsPerClient, connections, \
             newConnectionsPerPeer, clients, connectionsPerClient, preferredConnection, inputDepth, largestTimeout, largestGrace, unconnectedTools, \
             rememberedCalls, rememberedFor, replay, eventBuffer, eventBytes, historyBytes, headerTimeout, bodyTimeout, stallTimeout, \
             userTimeout, drainTimeout, storedBytes, storedCalls, callsOnDisk, callBytesOnDisk, callsKeptFor, storedSessions, storedMessageBytes, partsPerMessage, \
             sessionsPerClient, sessionBytesPerClient, sessionBytes, steps, \
             queuedPrompts, repeatedCalls, toolOutput",
        ),
    ];
    for (place, expected) in cases {
        assert_eq!(place.error(), expected);
    }
}

#[test]
fn bad_values() {
    let cases = [
        (
            Place::new().variable("HANDBACK_LISTEN", ":80"),
            "environment HANDBACK_LISTEN: listen: found \":80\", expected an address and a port, such as \
             127.0.0.1:4096, [::1]:4096 or localhost:4096",
        ),
        (
            Place::new().toml("listen = 80"),
            "file work/handback.toml: listen: invalid type: integer `80`, expected a string",
        ),
        (
            Place::new().toml("[limits]\nschemaDepth = 0"),
            "file work/handback.toml: limits.schemaDepth: found 0, expected a whole number from 1 to 128",
        ),
        (
            Place::new().variable("HANDBACK_LIMITS_REPLAY", "many"),
            "environment HANDBACK_LIMITS_REPLAY: limits.replay: found \"many\", expected a whole number from 1 to \
             65536",
        ),
        (
            Place::new().flag("clientTools.defaultTimeout", "-1", "--timeout"),
            "flag --timeout: clientTools.defaultTimeout: found \"-1\", expected a whole number from 1 to 86400000",
        ),
        (
            Place::new().toml("clientTools.keepaliveInterval = 1.5"),
            "file work/handback.toml: clientTools.keepaliveInterval: found 1.5, expected a whole number from 1 to \
             86400000",
        ),
        (
            Place::new().toml("logFormat = \"xml\""),
            "file work/handback.toml: logFormat: unknown variant `xml`, expected `text` or `json`",
        ),
        (
            Place::new().toml("[cors]\norigins = \"https://a.b\""),
            "file work/handback.toml: cors.origins: invalid type: string \"https://a.b\", expected a sequence",
        ),
        (
            Place::new().toml("allowedHosts = [\"a\", 5]"),
            "file work/handback.toml: allowedHosts[1]: invalid type: integer `5`, expected a string",
        ),
        (
            Place::new().variable("HANDBACK_ALLOWED_HOSTS", "a,b:80"),
            "environment HANDBACK_ALLOWED_HOSTS: allowedHosts: found \"b:80\", expected a host name without scheme and \
             port, such as tools.example.com",
        ),
        (
            Place::new().toml("auth = \"geheim\""),
            "file work/handback.toml: auth: found a single value, expected a table of keys",
        ),
        (Place::new().toml("limits = [1]"), "file work/handback.toml: limits: found a list, expected a table of keys"),
        (
            Place::new().toml("log = \"info\"").flag("log.level", "1", "--level"),
            "flag --level: log: invalid type: map, expected a string",
        ),
    ];
    for (place, expected) in cases {
        assert_eq!(place.error(), expected);
    }
}

#[test]
fn zero_is_taken_only_where_it_means_something() {
    let off = [
        "limits.callsPerMinute",
        "limits.drainTimeout",
        "limits.executePerMinute",
        "limits.largestGrace",
        "limits.preferredConnection",
        "limits.queuedPrompts",
        "limits.sessionBytes",
        "limits.sessionBytesPerClient",
        "limits.sessionsPerClient",
    ];
    for row in Place::new().load().rows().iter().filter(|row| row.value.parse::<u64>().is_ok()) {
        let place = Place::new().toml(&format!("{} = 0", row.key));
        if off.contains(&row.key.as_str()) {
            assert_eq!(place.given(), [[row.key.as_str(), "0", "file work/handback.toml"]]);
        } else {
            let expected = format!("file work/handback.toml: {}: found 0, expected a whole number from 1 to ", row.key);
            assert!(place.error().starts_with(&expected), "{}", place.error());
        }
    }
}

#[test]
fn origins_are_kept_as_browsers_send_them() {
    let given =
        "https://App.Example.com:443,http://a:80,http://b:8080,http://[::1]:5173,https://[::1],tauri://localhost";
    let place = Place::new().variable("HANDBACK_CORS_ORIGINS", given);
    let expected = [
        "https://app.example.com",
        "http://a",
        "http://b:8080",
        "http://[::1]:5173",
        "https://[::1]",
        "tauri://localhost",
    ];
    assert_eq!(place.load().config.cors.origins, expected);
}

#[test]
fn origins_that_are_refused() {
    for origin in [
        "*",
        "null",
        "a.b",
        "https://",
        "https://a/",
        "https://a/b",
        "https://*.a",
        "https://a:x",
        "://a",
        "https://u@a",
    ] {
        let expected = format!(
            "environment HANDBACK_CORS_ORIGINS: cors.origins: found {origin:?}, expected scheme://host or \
             scheme://host:port without a path, such as https://app.example.com; \"*\" is refused, for it would let \
             every web page use this server"
        );
        assert_eq!(Place::new().variable("HANDBACK_CORS_ORIGINS", origin).error(), expected);
    }
}

#[test]
fn addresses() {
    let listen = |text| Place::new().flag("listen", text, "--listen").load().config.listen.to_string();
    assert_eq!(listen("localhost:80"), "127.0.0.1:80");
    assert_eq!(listen("[::1]:0"), "[::1]:0");
    assert_eq!(listen("127.1.2.3:4096"), "127.1.2.3:4096");
}

#[test]
fn variables_match_without_case_and_underscores() {
    for name in [
        "HANDBACK_CLIENT_TOOLS_DEFAULT_TIMEOUT",
        "HANDBACK_CLIENTTOOLS_DEFAULTTIMEOUT",
        "HANDBACK_CLIENTTOOLS__DEFAULTTIMEOUT",
        "HANDBACK_clientTools_defaultTimeout",
        "handback_client_tools_default_timeout",
    ] {
        let loaded = Place::new().variable(name, " 5 ").load();
        assert_eq!(loaded.config.client_tools.default_timeout, Duration::from_millis(5));
        assert_eq!(loaded.sources["clientTools.defaultTimeout"], Source::Environment(name.to_owned()));
    }
}

#[test]
fn no_two_keys_have_the_same_variable() {
    let mut names: Vec<String> = Place::new().load().rows().iter().map(|row| plain(&row.key)).collect();
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn variables_that_say_nothing() {
    let loaded = Place::new()
        .variable("HANDBACK_URL", "http://127.0.0.1:1")
        .variable("HANDBACK_TOKEN", "t")
        .variable("HANDBACK_LISTEN", "")
        .variable("HANDBACK_CLIENT_TOOL_DEFAULT_TIMEOUT", "1")
        .variable("HANDBACK_PORT_4096_TCP", "tcp://10.0.0.1:4096")
        .variable("HOME", "/")
        .load();
    assert_eq!(loaded.config, Config::default());
    let expected = [
        "environment HANDBACK_CLIENT_TOOL_DEFAULT_TIMEOUT sets no key (did you mean \
         HANDBACK_CLIENT_TOOLS_DEFAULT_TIMEOUT?)",
        "environment HANDBACK_PORT_4096_TCP sets no key",
    ];
    assert_eq!(loaded.warnings, expected);
}

#[test]
fn two_variables_for_one_key() {
    let place = Place::new().variable("HANDBACK_LOG_FORMAT", "json").variable("HANDBACK_LOGFORMAT", "text");
    assert_eq!(place.error(), "HANDBACK_LOGFORMAT and HANDBACK_LOG_FORMAT are both present; keep one of them");
}

#[test]
fn secrets_are_read_and_not_shown() {
    let place = Place::new()
        .toml(&format!("[auth]\nkeys = [\"{HASH}\", \"{HASH}\"]\npublicKey = '''\n{PEM}\n'''"))
        .variable("HANDBACK_AUTH_TOKEN_SECRET", SECRET);
    let loaded = place.load();
    let auth = &loaded.config.auth;
    assert_eq!(auth.token_secret.as_ref().unwrap().expose(), SECRET);
    assert_eq!(auth.keys.len(), 2);
    assert_eq!(auth.keys[0].expose()[..4], [0, 0x11, 0x22, 0x33]);
    assert_eq!(auth.keys[0].expose()[31], 0xff);
    assert_eq!(auth.public_key.as_deref(), Some(PEM));
    let expected = [
        ["auth.keys", "[redacted], [redacted]", "file work/handback.toml"],
        ["auth.publicKey", &PEM.replace('\n', " "), "file work/handback.toml"],
        ["auth.tokenSecret", "[redacted]", "environment HANDBACK_AUTH_TOKEN_SECRET"],
    ];
    assert_eq!(place.given(), expected);
    assert_eq!(format!("{} {:?}", Secret::new("x"), Secret::new("x")), "[redacted] [redacted]");
    assert_eq!(format!("{:?} {:?}", auth.keys, auth.token_secret), "[[redacted], [redacted]] Some([redacted])");
    assert!(!format!("{loaded:?}").contains(SECRET));
}

#[test]
fn bad_secrets_are_not_shown() {
    let cases = [
        ("tokenSecret = \"geheim\"", "auth.tokenSecret: found 6 bytes, expected at least 32"),
        ("tokenSecret = 123456", "auth.tokenSecret: found no text, expected a text of at least 32 bytes"),
        ("keys = \"geheim\"", "auth.keys: found no list, expected a list of SHA-256 hashes in 64 hex digits"),
        (
            &format!("keys = [\"{HASH}\", \"+{}\"]", &HASH[1..]),
            "auth.keys: found something else at entry 2, expected the SHA-256 of a key in 64 hex digits",
        ),
        (
            "keys = [123456]",
            "auth.keys: found something else at entry 1, expected the SHA-256 of a key in 64 hex digits",
        ),
        (
            "publicKey = \"-----BEGIN PRIVATE KEY-----\"",
            "auth.publicKey: found something else, expected an Ed25519 public key in PEM (-----BEGIN PUBLIC KEY-----)",
        ),
    ];
    for (text, expected) in cases {
        let place = Place::new().toml(&format!("[auth]\n{text}"));
        assert_eq!(place.error(), format!("file work/handback.toml: {expected}"));
    }
}

#[test]
fn beyond_loopback_a_key_is_needed() {
    for listen in ["0.0.0.0:4096", "[::]:4096", "192.168.1.2:4096", "[::ffff:192.168.1.2]:4096"] {
        let place = Place::new().flag("listen", listen, "--listen");
        let expected = format!(
            "flag --listen: listen: {listen} can be reached from other machines, and auth.keys is empty; listen on a \
             loopback address such as 127.0.0.1:4096, or make a key of 32 random bytes with `openssl rand -hex 32` and \
             put its SHA-256, as printed by `printf %s KEY | sha256sum`, into auth.keys"
        );
        assert_eq!(place.error(), expected);
        place.variable("HANDBACK_AUTH_KEYS", HASH).load();
    }
    for listen in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
        Place::new().flag("listen", listen, "--listen").load();
    }
}

#[test]
fn tokens_without_keys_are_warned_of() {
    let place = Place::new().variable("HANDBACK_AUTH_TOKEN_SECRET", SECRET);
    assert_eq!(place.load().warnings, ["auth.keys is empty, so nobody is asked for a token"]);
    assert_eq!(place.variable("HANDBACK_AUTH_KEYS", HASH).load().warnings, Vec::<String>::new());
}

#[test]
fn the_inputs_of_this_process() {
    let inputs = Inputs::from_process(None, Vec::new());
    assert_eq!(inputs.working_directory, std::env::current_dir().unwrap());
    assert!(inputs.environment.contains_key("PATH"));
}
