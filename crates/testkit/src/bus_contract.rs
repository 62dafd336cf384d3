//! What every bus must do: one suite of tests, run against each bus by the macro [`bus_contract!`](crate::bus_contract!).

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use handback_core::bus::{Bus, Heard, Note};
use handback_core::id::{ClientId, NodeId, RequestId, SessionId};

/// Makes a test of each function of the suite. Takes a function that gives the buses of three nodes that can hear each
/// other, and with them whatever has to live as long.
#[macro_export]
macro_rules! bus_contract {
    ($open:path) => {
        $crate::bus_contract! { $open =>
            a_note_reaches_its_node_and_no_other,
            a_note_to_all_reaches_all_others,
            every_kind_of_note_arrives_as_it_was_sent,
            a_note_to_nobody_is_lost_and_harms_nobody,
            many_notes_arrive_or_the_node_knows_that_it_missed_some,
            a_node_that_does_not_listen_holds_nobody_up,
        }
    };
    ($open:path => $($test:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                let (nodes, _kept) = $open().await;
                $crate::bus_contract::$test(nodes).await;
            }
        )*
    };
}

/// A node with its bus.
pub struct Node {
    /// The node.
    pub id: NodeId,
    /// Its bus.
    pub bus: Arc<dyn Bus>,
}

/// How long a note may take.
const PATIENCE: Duration = Duration::from_secs(10);

fn call(number: usize) -> Note {
    Note::Call(RequestId::parse(&format!("r{number}")).unwrap())
}

impl Node {
    /// What the node hears next. When it begins to listen, it may hear that it has missed something.
    async fn hears(&self) -> Heard {
        tokio::time::timeout(PATIENCE, self.bus.hear()).await.expect("it hears something in time")
    }

    /// The next note.
    async fn note(&self) -> Note {
        loop {
            if let Heard::Note(note) = self.hears().await {
                return note;
            }
        }
    }
}

/// Waits until all nodes hear each other, and have heard all that this takes.
pub async fn meet(nodes: &[Node; 3]) {
    for (number, from) in nodes.iter().enumerate() {
        for to in nodes.iter().filter(|to| to.id != from.id) {
            let mark = Note::Call(RequestId::parse(&format!("meeting {number} {}", to.id)).unwrap());
            // A node that has not begun to listen hears nothing, so it is told until it does.
            loop {
                from.bus.send(to.id, mark.clone());
                let heard = tokio::time::timeout(Duration::from_millis(50), async {
                    while to.bus.hear().await != Heard::Note(mark.clone()) {}
                });
                if heard.await.is_ok() {
                    break;
                }
            }
        }
    }
    // The last of the marks that were sent too often, and then nothing.
    for node in nodes {
        while tokio::time::timeout(Duration::from_millis(50), node.bus.hear()).await.is_ok() {}
    }
}

/// The next note to another node comes first for it.
pub async fn a_note_reaches_its_node_and_no_other(nodes: [Node; 3]) {
    meet(&nodes).await;
    let [one, two, three] = &nodes;
    one.bus.send(two.id, call(1));
    assert_eq!(two.note().await, call(1));
    // Another way round, and after that there is nothing for anybody.
    two.bus.send(three.id, call(2));
    three.bus.send(one.id, call(3));
    assert_eq!((three.note().await, one.note().await), (call(2), call(3)));
    for node in &nodes {
        assert_eq!(node.bus.hear().now_or_never(), None);
    }
}

/// But not the one that sends it.
pub async fn a_note_to_all_reaches_all_others(nodes: [Node; 3]) {
    meet(&nodes).await;
    let [one, two, three] = &nodes;
    two.bus.broadcast(Note::Nodes);
    assert_eq!((one.note().await, three.note().await), (Note::Nodes, Note::Nodes));
    // What was sent before would have arrived by now.
    one.bus.send(two.id, Note::Mail);
    assert_eq!(two.note().await, Note::Mail);
}

/// With whatever ids there may be.
pub async fn every_kind_of_note_arrives_as_it_was_sent(nodes: [Node; 3]) {
    meet(&nodes).await;
    let [one, two, _] = &nodes;
    let notes = [
        Note::Call(RequestId::parse("it's \"quoted\" \\ % 🦀 --").unwrap()),
        Note::Client(ClientId::parse("a.b:c@d-e_f").unwrap()),
        Note::Session(SessionId::parse("chat 7/é").unwrap()),
        Note::Session(SessionId::parse(&"x".repeat(256)).unwrap()),
        Note::Mail,
        Note::Nodes,
    ];
    for note in notes {
        one.bus.send(two.id, note.clone());
        assert_eq!(two.note().await, note);
    }
}

/// Neither the sender nor the others.
pub async fn a_note_to_nobody_is_lost_and_harms_nobody(nodes: [Node; 3]) {
    meet(&nodes).await;
    let [one, two, three] = &nodes;
    one.bus.send(NodeId::new(i64::MAX), call(1));
    one.bus.send(two.id, call(2));
    assert_eq!(two.note().await, call(2));
    one.bus.send(three.id, call(3));
    assert_eq!(three.note().await, call(3));
}

/// From two nodes at once, and with ids so long that not many fit into anything.
pub async fn many_notes_arrive_or_the_node_knows_that_it_missed_some(nodes: [Node; 3]) {
    meet(&nodes).await;
    let [one, two, three] = &nodes;
    let note = |from: &str, number: usize| {
        Note::Call(RequestId::parse(&format!("{from}{number:04}{}", "x".repeat(200))).unwrap())
    };
    let mut missing = std::collections::HashSet::new();
    for number in 0..1_000 {
        one.bus.send(two.id, note("one", number));
        three.bus.send(two.id, note("three", number));
        missing.extend([note("one", number), note("three", number)]);
    }
    while !missing.is_empty() {
        match two.hears().await {
            Heard::Note(note) => assert!(missing.remove(&note), "{note} comes once"),
            Heard::Missed => return,
        }
    }
}

/// Neither the senders nor those that listen, whatever is sent.
pub async fn a_node_that_does_not_listen_holds_nobody_up(nodes: [Node; 3]) {
    meet(&nodes).await;
    let [one, two, three] = &nodes;
    for number in 0..20_000 {
        one.bus.send(two.id, call(number));
    }
    one.bus.send(three.id, Note::Mail);
    assert_eq!(three.note().await, Note::Mail);
    // It hears that it has missed something, or else everything that it was sent before the last note.
    one.bus.send(two.id, Note::Nodes);
    while let Heard::Note(note) = two.hears().await {
        if note == Note::Nodes {
            break;
        }
    }
}
