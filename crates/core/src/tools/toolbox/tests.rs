use super::*;
use crate::id::{ClientId, ToolName};
use crate::store::{Effect, ToolSpec};

fn tool(client: &str, name: &str) -> Arc<Tool> {
    let (client, name) = (ClientId::parse(client).unwrap(), ToolName::parse(name).unwrap());
    let spec = ToolSpec {
        name,
        description: String::new(),
        schema: Arc::new(Schema::any_object()),
        timeout: None,
        effect: Effect::Write,
        version: None,
    };
    Arc::new(Tool::of_client(client, spec))
}

fn aliases(tools: Vec<Arc<Tool>>) -> Vec<String> {
    offer(tools.into_iter().map(Place::Client)).iter().map(|offered| offered.alias.to_string()).collect()
}

#[test]
fn an_id_that_providers_allow_is_its_own_alias() {
    assert_eq!(aliases(vec![tool("tab", "get_time")]), ["client_tab_get_time"]);
    let longest = tool(&"c".repeat(55), "t");
    assert_eq!(longest.id.as_str().len(), 64);
    assert_eq!(aliases(vec![longest.clone()]), [longest.id.as_str()]);
}

#[test]
fn an_id_that_does_not_fit_gets_its_own_name_and_eight_hex_digits() {
    let uuid = "3f2a9c1e-7b1d-4a0e-9d55-0f4e2b1c8a77";
    let names =
        aliases(vec![tool(uuid, "read_the_whole_file_from_disk"), tool("a.b", "get:time"), tool("x", &"n".repeat(64))]);
    assert_eq!(names[0].len(), "read_the_whole_file_from_disk".len() + 9);
    assert!(names[0].starts_with("read_the_whole_file_from_disk_"), "{names:?}");
    assert!(names[1].starts_with("get_time_"), "{names:?}");
    assert_eq!((names[2].len(), names[2].starts_with(&"n".repeat(55))), (64, true));
    for name in &names {
        assert!(fits(name), "{name}");
        let digits = name.rsplit('_').next().unwrap();
        assert!(digits.len() == 8 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()), "{name}");
    }
}

#[test]
fn an_alias_is_the_same_for_ever_and_tells_clients_apart() {
    assert_eq!(alias("client_a.b_t", "t", 0), "t_1e7f8265");
    assert_ne!(alias("client_a.b_t", "t", 0), alias("client_a.c_t", "t", 0));
    assert_ne!(alias("client_a.b_t", "t", 0), alias("client_a.b_t", "t", 1));
}

#[test]
fn a_server_tool_keeps_its_name_and_is_refused_one_that_providers_do_not_allow() {
    let list: Arc<dyn ServerTool> = Arc::new(ListTools::default());
    let offered = offer([Place::Server(list), Place::Client(tool("tab", "t"))]);
    let names: Vec<_> = offered.iter().map(|offered| (offered.alias.as_str(), offered.id())).collect();
    assert_eq!(names, [("list_tools", "list_tools"), ("client_tab_t", "client_tab_t")]);
    for bad in ["", "a.b", "ä", &"x".repeat(65)] {
        assert!(ServerToolSpec::new(bad, "", Arc::new(Schema::any_object())).is_err(), "{bad}");
    }
}
