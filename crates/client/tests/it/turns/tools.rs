//! Turns of a client whose tools are connected.

use std::time::Duration;

use futures_util::future::join_all;
use handback_client::{ClientTools, Options, Tool};
use handback_wire::session::Prompt;
use tokio_util::task::TaskTracker;

use super::server::{Cut, Server, Taking};
use crate::stub::next;

async fn connected(server: &mut Server) -> (ClientTools, String) {
    // Longer than it takes to repeat a prompt.
    let reconnect = (Duration::from_millis(2_200), Duration::from_millis(2_200));
    let tools = ClientTools::new(server.api.clone(), "laptop", Options::with(|options| options.reconnect = reconnect));
    tools.register(Tool::new("greet", "Greets", |_| async { Ok("Hello!") })).await.unwrap();
    tools.connect(None).await.unwrap();
    let name = next(&mut server.connections).await;
    (tools, name)
}

/// A turn whose first try meets a restart. Says with how many tools it was said in the end, and on which connection.
async fn said_after_restart(cut: Cut) -> (Option<String>, usize) {
    let mut server = Server::start().await;
    let (tools, name) = connected(&mut server).await;
    {
        let mut world = server.world();
        world.taking = [Taking::Restarted(cut)].into();
        // The server is not quite there yet when it is asked first.
        world.unregistered = 1;
    }
    let turn = tools.turn("ses_1", "hello");
    let ended = TaskTracker::new().spawn(turn.finish());
    let mut listeners = Vec::new();
    let prompts = [server.request_of(&mut listeners).await, server.request_of(&mut listeners).await];
    assert_eq!(prompts[0], prompts[1]);
    ended.abort();
    assert_eq!(tools.connection(), Some(name));
    server.world().taken.pop().unwrap()
}

#[tokio::test]
async fn after_a_restart_a_prompt_is_repeated_when_the_server_has_the_tools_again() {
    let cuts = [(true, true), (true, false), (false, true), (false, false)];
    let said = cuts.map(|(events, calls)| said_after_restart(Cut { events, calls }));
    for (connection, tools) in join_all(said).await {
        assert!(connection.is_some());
        assert_eq!(tools, 1, "it was said before the tools were there");
    }
}

#[tokio::test]
async fn a_prompt_names_the_connection_that_the_tools_are_called_on() {
    let mut server = Server::start().await;
    let (tools, name) = connected(&mut server).await;
    assert_eq!(tools.connection(), Some(name.clone()));
    for connection in [None, Some("another".to_owned())] {
        let prompt = Prompt { connection, .."hello".into() };
        let turn = TaskTracker::new().spawn(tools.turn("ses_1", prompt).finish());
        let _listener = server.listener().await;
        server.request().await;
        turn.abort();
    }
    let turn = TaskTracker::new().spawn(server.api.turn("ses_1", "hello").finish());
    let _listener = server.listener().await;
    server.request().await;
    turn.abort();
    assert_eq!(server.world().taken, [(Some(name), 1), (Some("another".to_owned()), 1), (None, 1)]);
    tools.disconnect().await;
    assert_eq!(tools.connection(), None);
}
