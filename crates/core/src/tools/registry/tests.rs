use super::*;
use crate::id::ToolName;
use crate::schema::Schema;
use crate::store::Effect;

fn client(name: &str) -> ClientId {
    ClientId::parse(name).unwrap()
}

fn session(name: &str) -> SessionId {
    SessionId::parse(name).unwrap()
}

fn specs(names: &[&str]) -> Vec<ToolSpec> {
    let spec = |name: &&str| ToolSpec {
        name: ToolName::parse(name).unwrap(),
        description: String::new(),
        schema: Arc::new(Schema::any_object()),
        timeout: None,
        effect: Effect::Write,
        version: None,
    };
    names.iter().map(spec).collect()
}

/// At most three tools of a client, each in at most two sessions.
fn few() -> Limits {
    Limits { tools_per_client: 3, sessions_per_tool: 2, ..Limits::default() }
}

fn register(registry: &mut Registry, owner: &str, names: &[&str]) -> Vec<String> {
    let ids = registry.register(&client(owner), &Placement::Everywhere, specs(names), &Limits::default()).unwrap();
    ids.iter().map(ToString::to_string).collect()
}

fn names(registry: &Registry, owner: &str, only: Option<&str>) -> Vec<String> {
    let only = only.map(session);
    registry.of_client(&client(owner), only.as_ref()).iter().map(|tool| tool.spec.name.to_string()).collect()
}

#[test]
fn tools_are_listed_in_order_of_registration_and_the_same_id_again_replaces_in_place() {
    let mut registry = Registry::default();
    register(&mut registry, "a", &["z", "m", "a"]);
    let mut again = specs(&["m"]);
    again[0].description = "new".into();
    registry.register(&client("a"), &Placement::Everywhere, again, &Limits::default()).unwrap();
    assert_eq!(names(&registry, "a", None), ["z", "m", "a"]);
    assert_eq!(registry.find("client_a_m").unwrap().spec.description, "new");
    assert_eq!(registry.count(), 3);
}

#[test]
fn a_tool_id_that_two_clients_would_share_is_refused_to_the_second_and_nothing_else_of_it_is_taken() {
    let mut registry = Registry::default();
    register(&mut registry, "a", &["b_c"]);
    let refused =
        registry.register(&client("a_b"), &Placement::Everywhere, specs(&["x", "c"]), &Limits::default()).unwrap_err();
    assert_eq!(refused, RegisterError::Collision { tool: ToolId::new(&client("a"), &ToolName::parse("b_c").unwrap()) });
    assert_eq!(names(&registry, "a_b", None), [""; 0]);
    assert_eq!(registry.count(), 1);
    assert_eq!(registry.find("client_a_b_c").unwrap().client, client("a"));
}

#[test]
fn too_many_tools_are_refused_as_a_whole_and_replacing_is_not_adding() {
    let mut registry = Registry::default();
    registry.register(&client("a"), &Placement::Everywhere, specs(&["1", "2"]), &few()).unwrap();
    let refused = registry.register(&client("a"), &Placement::Everywhere, specs(&["2", "3", "4"]), &few()).unwrap_err();
    assert_eq!(refused, RegisterError::TooManyTools { found: 4, allowed: 3 });
    registry.register(&client("a"), &Placement::Everywhere, specs(&["1", "2", "3", "3"]), &few()).unwrap();
    assert_eq!(registry.count(), 3);
}

#[test]
fn an_exact_full_id_is_taken_before_a_name() {
    let mut registry = Registry::default();
    register(&mut registry, "a", &["x", "client_a_x"]);
    let gone = registry.unregister(&client("a"), None, Some(&["client_a_x".into()]));
    assert_eq!(gone.iter().map(ToString::to_string).collect::<Vec<_>>(), ["client_a_x"]);
    assert_eq!(names(&registry, "a", None), ["client_a_x"]);
    let gone = registry.unregister(&client("a"), None, Some(&["client_a_x".into()]));
    assert_eq!(gone.iter().map(ToString::to_string).collect::<Vec<_>>(), ["client_a_client_a_x"]);
    assert_eq!(registry.count(), 0);
}

#[test]
fn absent_is_all_and_an_empty_list_is_none() {
    let mut registry = Registry::default();
    register(&mut registry, "a", &["x", "y"]);
    assert_eq!(registry.unregister(&client("a"), None, Some(&[])), []);
    assert_eq!(registry.unregister(&client("b"), None, None), []);
    assert_eq!(registry.unregister(&client("a"), None, Some(&["x".into(), "x".into(), "client_a_x".into()])).len(), 1);
    assert_eq!(registry.unregister(&client("a"), None, None).len(), 1);
    assert!(registry.by_client.is_empty(), "nothing is left behind");
}

#[test]
fn a_tool_may_be_in_several_sessions_and_goes_with_the_last() {
    let mut registry = Registry::default();
    for name in ["s1", "s2"] {
        registry.register(&client("a"), &Placement::In(session(name)), specs(&["x"]), &Limits::default()).unwrap();
    }
    register(&mut registry, "a", &["everywhere"]);
    assert_eq!(names(&registry, "a", Some("s1")), ["x", "everywhere"]);
    assert_eq!(names(&registry, "a", Some("other")), ["everywhere"]);
    assert_eq!(registry.unregister(&client("a"), Some(&session("other")), None), []);
    assert_eq!(registry.unregister(&client("a"), Some(&session("s1")), None).len(), 1);
    assert_eq!(names(&registry, "a", Some("s1")), ["everywhere"]);
    assert_eq!(names(&registry, "a", Some("s2")), ["x", "everywhere"]);
    registry.unregister(&client("a"), Some(&session("s2")), Some(&["x".into()]));
    assert_eq!(names(&registry, "a", None), ["everywhere"]);
}

#[test]
fn a_tool_is_in_so_many_sessions_and_leaves_those_that_are_gone() {
    let mut registry = Registry::default();
    let register = |registry: &mut Registry, name: &str| {
        registry.register(&client("a"), &Placement::In(session(name)), specs(&["x"]), &few()).map(|ids| ids.len())
    };
    for name in ["one", "two", "two"] {
        assert_eq!(register(&mut registry, name), Ok(1));
    }
    assert!(matches!(register(&mut registry, "three"), Err(RegisterError::TooManySessions { allowed: 2, .. })));
    assert!(registry.forget_session(&session("one")).is_empty());
    assert_eq!(register(&mut registry, "three"), Ok(1));
    assert!(registry.forget_session(&session("two")).is_empty());
    assert_eq!(registry.forget_session(&session("three")).len(), 1);
    assert_eq!((registry.count(), registry.by_session.len()), (0, 0));
}

#[test]
fn whoever_is_limited_to_a_session_changes_nothing_elsewhere() {
    let mut registry = Registry::default();
    let other = |name: &str| vec![ToolSpec { description: "other".into(), ..specs(&[name]).remove(0) }];
    let only = |name: &str| Placement::OnlyIn(session(name));
    let limits = few();
    register(&mut registry, "a", &["x"]);
    let x = ToolId::new(&client("a"), &ToolName::parse("x").unwrap());
    let elsewhere = Err(RegisterError::Elsewhere { tool: x });
    assert_eq!(registry.register(&client("a"), &only("s1"), other("x"), &limits), elsewhere);
    assert!(registry.register(&client("a"), &only("s1"), specs(&["x", "y"]), &limits).is_ok());
    assert_eq!(registry.find("client_a_x").unwrap().spec.description, "");
    // What is its own it may replace, until another session has it too.
    registry.register(&client("a"), &only("s1"), other("y"), &limits).unwrap();
    assert_eq!(registry.find("client_a_y").unwrap().spec.description, "other");
    registry.register(&client("a"), &only("s2"), other("y"), &limits).unwrap();
    assert!(registry.register(&client("a"), &only("s1"), specs(&["y"]), &limits).is_err());
    assert_eq!(names(&registry, "a", Some("s2")), ["x", "y"]);
    // How many there are elsewhere does not count.
    register(&mut registry, "a", &["1", "2"]);
    registry.register(&client("a"), &only("s3"), specs(&["3", "4", "5"]), &limits).unwrap();
    let many = registry.register(&client("a"), &only("s3"), specs(&["6"]), &limits);
    assert_eq!(many, Err(RegisterError::TooManyTools { found: 4, allowed: 3 }));
    // Each goes with those who registered it.
    assert_eq!(registry.expire(&client("a"), Some(&session("s3"))).len(), 3);
    assert_eq!(registry.expire(&client("a"), Some(&session("s1"))), []);
    assert_eq!(names(&registry, "a", Some("s1")), ["x", "1", "2"]);
    assert_eq!(registry.expire(&client("a"), None).len(), 3);
    assert_eq!(names(&registry, "a", Some("s2")), ["y"]);
    assert_eq!(registry.expire(&client("a"), Some(&session("s2"))).len(), 1);
    assert_eq!((registry.count(), registry.by_session.len(), registry.by_client.len()), (0, 0, 0));
}
