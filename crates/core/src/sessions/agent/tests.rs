use super::*;

#[test]
fn the_default_agent_is_always_there() {
    let agent = Agent { system: Some("Be brief.".to_owned()), ..Agent::default() };
    let agents = Agents::from_iter([("clerk".into(), agent.clone())]);
    assert_eq!(agents.names().collect::<Vec<_>>(), ["clerk", DEFAULT_AGENT]);
    assert_eq!(agents.find("clerk"), Some(&Arc::new(agent.clone())));
    assert_eq!(agents.find(DEFAULT_AGENT), Some(&Arc::new(Agent { is_open: true, ..Agent::default() })));
    assert_eq!(agents.find("nobody"), None);
    let agents = Agents::from_iter([(DEFAULT_AGENT.into(), agent.clone())]);
    assert_eq!(agents.find(DEFAULT_AGENT), Some(&Arc::new(agent)));
    assert_eq!(Agents::default().names().collect::<Vec<_>>(), [DEFAULT_AGENT]);
}
