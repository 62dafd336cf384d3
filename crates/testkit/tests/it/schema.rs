//! The committed description of the API is that of the routes.

use handback_server::App;

#[test]
fn the_committed_description_of_the_api_is_current() {
    let (_, document) = App::routes();
    let current = format!("{}\n", document.to_pretty_json().unwrap());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/openapi.json");
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        std::fs::write(path, &current).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap();
    assert!(committed == current, "schemas/openapi.json is not current: run `make schemas`");
}
