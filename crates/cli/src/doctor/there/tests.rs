use super::super::Health;
use super::*;

fn status() -> ServerStatus {
    ServerStatus {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ready: true,
        time: 0,
        uptime: 61_500,
        store: StoreKind::Memory,
        model: "work/large".to_owned(),
        providers: BTreeMap::from([("work".to_owned(), ProviderKey::Set)]),
        counts: ServerCounts { clients: 1, connections: 2, tools: 3, calls: 4 },
        bounds: BTreeMap::from([("limits.clients".to_owned(), BoundUse { used: 79, most: 100 })]),
        open_files: Some(BoundUse { used: 10, most: 1_024 }),
    }
}

/// What is said of a server, without what is well.
fn complaints(status: &ServerStatus) -> Vec<(Health, String)> {
    let complaints = describe(status).into_iter().filter(|check| check.health != Health::Ok);
    complaints.map(|check| (check.health, check.message)).collect()
}

#[test]
fn a_server_that_is_well_is_described() {
    let lines: Vec<String> = describe(&status()).iter().map(Check::text).collect();
    let version = env!("CARGO_PKG_VERSION");
    let expected = [
        &format!("ok       version        the server is {version}, as this command\n"),
        "ok       uptime         1m 1s; what it has is in memory, and ends with it\n",
        "ok       model          work/large, with a key\n",
        "ok       counts         clients 1, connections 2, tools 3, calls under way 4\n",
        "ok       limits         none is near: limits.clients\n",
        "ok       open files     10 of 1024 are open\n",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn what_is_near_its_bound_or_missing_is_said() {
    let mut status = status();
    status.bounds.insert("limits.clients".to_owned(), BoundUse { used: 80, most: 100 });
    status.bounds.insert("limits.connections".to_owned(), BoundUse { used: 1, most: 10_240 });
    status.providers.insert("work".to_owned(), ProviderKey::Missing);
    status.version = "0.0.1".to_owned();
    let own = env!("CARGO_PKG_VERSION");
    let expected = [
        (Health::Warning, format!("the server is 0.0.1, and this command {own}")),
        (Health::Problem, "work/large has no key, and its provider wants one".to_owned()),
        (Health::Warning, "80 of limits.clients 100 are used".to_owned()),
        (Health::Warning, "10 of 1024 are open, fewer than limits.connections 10240".to_owned()),
    ];
    assert_eq!(complaints(&status), expected);
    status.open_files = Some(BoundUse { used: 820, most: 1_024 });
    assert_eq!(complaints(&status).pop().unwrap().1, "820 of 1024 are open");
}

#[test]
fn clocks_may_differ_a_little() {
    let health = |seconds| clocks(Duration::from_secs(seconds)).health;
    assert_eq!([health(0), health(5), health(6)], [Health::Ok, Health::Ok, Health::Warning]);
}

#[test]
fn the_words_of_a_server_add_no_lines() {
    let check = Check::problem("ready", "no\nok       ready          it takes calls", "wait\r\nok");
    let text = check.text();
    assert_eq!((text.lines().count(), text.matches("\nok").count()), (2, 0), "{text}");
}
