//! Messages, their parts, and which are being answered.

use std::collections::BTreeMap;
use std::sync::Arc;

use handback_core::clock::Time;
use handback_core::id::{CallId, ClientId, ConnectionName, MessageId, RunId, ToolName};
use handback_core::store::{
    AssistantMessage, IfFull, Message, Most, NextTurn, OpenTurn, PageTool, Part, Role, StopReason, Store, ToolResult,
    TurnNeeds, Usage, UserMessage,
};
use serde_json::value::to_raw_value;

use super::samples::{
    TEXTS, assistant, frontend_parts, model, parts, parts_of_providers, seen_message, seen_messages, session,
    session_id, text_part, turn_errors, user, wanted_back,
};

async fn with_session(store: &Arc<dyn Store>, id: &str) {
    store.save_session(&Arc::new(session(id)), IfFull::Fails).await.unwrap();
}

async fn keep(store: &Arc<dyn Store>, message: Message) -> String {
    let message = Arc::new(message);
    store.save_message(&message).await.unwrap();
    seen_message(&message)
}

async fn kept(store: &Arc<dyn Store>, session: &str) -> Vec<String> {
    seen_messages(&store.messages(&session_id(session)).await.unwrap())
}

/// The ids of the messages whose turns are open, by session.
async fn open_turns(store: &Arc<dyn Store>) -> Vec<String> {
    let mut left = store.open_turns().await.unwrap();
    left.sort_by(|one, other| one.session.cmp(&other.session));
    left.iter().map(|message| format!("{}/{}", message.session, message.id)).collect()
}

/// A user's message that no turn answers.
fn answered(session: &str, id: &str) -> Message {
    let message = user(session, id);
    let Role::User(role) = message.role else { panic!("{message:?} is not a user's") };
    Message { role: Role::User(UserMessage { turn: None, ..role }), ..message }
}

fn completed(message: Message, completed: Option<Time>) -> Message {
    let Role::Assistant(assistant) = message.role else { panic!("{message:?} is not an assistant's") };
    Message { role: Role::Assistant(AssistantMessage { completed, ..assistant }), ..message }
}

/// Everything that a turn can need.
fn needs(text: &str) -> TurnNeeds {
    let parameters = Some(to_raw_value(&serde_json::json!({ "title": text })).unwrap());
    let output = to_raw_value(&[text]).unwrap();
    TurnNeeds {
        client: Some(ClientId::parse("tab").unwrap()),
        connection: Some(ConnectionName::parse("window-1").unwrap()),
        model: Some(model()),
        system: Some(text.into()),
        instructions: vec![text.into(), String::new()],
        switches: BTreeMap::from([(text.to_owned(), true), ("client_*".to_owned(), false)]),
        page_tools: vec![PageTool { name: ToolName::parse("pick").unwrap(), description: text.into(), parameters }],
        is_followed: true,
        yields_asks: true,
        has_frontend: true,
        settles_calls: true,
        run: Some(RunId::parse("run_1").unwrap()),
        results: vec![(CallId::parse("call_1").unwrap(), ToolResult::Given { output, error: Some(text.into()) })],
    }
}

/// Every field of both roles, and every kind of part.
pub async fn a_message_is_kept_as_it_was(store: Arc<dyn Store>) {
    with_session(&store, "ses_1").await;
    let mut expected = Vec::new();
    for (number, text) in TEXTS.into_iter().enumerate() {
        let role = Role::User(UserMessage {
            agent: text.into(),
            model: model(),
            wants_reply: number % 2 == 0,
            needs: needs(text),
            turn: (number % 3 == 0).then(|| OpenTurn {
                since: Time(number as u64),
                after: Some(message_id(" last ")),
                progress: number,
                lives: usize::MAX - number,
            }),
            next: (number % 3 == 0).then(|| Box::new(NextTurn { after: message_id(" next "), needs: needs(text) })),
        });
        let created = Time(u64::MAX - number as u64);
        expected.push(keep(&store, Message { role, created, ..user("ses_1", &format!("it's \"{number}\" 🦀")) }).await);
    }
    for (number, error) in turn_errors().into_iter().map(Some).chain([None]).enumerate() {
        let message = assistant("ses_1", &format!("msg_{number}"), "it's \"0\" 🦀");
        let Role::Assistant(role) = message.role else { panic!("{message:?} is not an assistant's") };
        let role = Role::Assistant(AssistantMessage {
            completed: Some(Time(number as u64)),
            finish: Some(StopReason::ToolCalls),
            usage: Usage { input: 1, output: u64::MAX, reasoning: Some(3), cache_read: Some(0), cache_write: None },
            error,
            kept: Some(wanted_back(number.into())),
            ..role
        });
        expected.push(keep(&store, Message { role, ..message }).await);
    }
    expected.push(keep(&store, Message { parts: parts(), ..assistant("ses_1", "all parts", "") }).await);
    let of_providers = Message { parts: parts_of_providers(), ..assistant("ses_1", "of providers", "") };
    expected.push(keep(&store, of_providers).await);
    let of_frontends = Message { parts: frontend_parts(), ..assistant("ses_1", "of frontends", "") };
    expected.push(keep(&store, of_frontends).await);
    expected.push(keep(&store, Message { parts: Vec::new(), ..user("ses_1", "no parts") }).await);
    assert_eq!(kept(&store, "ses_1").await, expected);
}

/// However a message's parts change from one save to the next, it has those that it was last saved with.
pub async fn parts_change_come_and_go(store: Arc<dyn Store>) {
    with_session(&store, "ses_1").await;
    let first = keep(&store, user("ses_1", "msg_0")).await;
    let [a, b, c] = ["a", "b", "c"].map(|id| text_part(id, id));
    let longer = text_part("a", "a and more");
    let same_id = text_part("a", "another of that id");
    let many: Vec<Arc<Part>> = (0..300).map(|number| text_part(&format!("prt_{number}"), "text")).collect();
    let versions: [&[&Arc<Part>]; 12] = [
        &[&a],
        &[&longer],
        &[&longer, &b],
        &[&longer, &b, &c],
        &[&longer, &c],
        &[&c, &longer],
        &[&c, &b, &longer],
        &[&a, &same_id, &a],
        &[],
        &[&a, &b, &c],
        &many.iter().collect::<Vec<_>>(),
        &[&b],
    ];
    for version in versions {
        let parts = version.iter().map(|part| Arc::clone(part)).collect();
        let message = keep(&store, Message { parts, ..assistant("ses_1", "msg_1", "msg_0") }).await;
        assert_eq!(kept(&store, "ses_1").await, [first.clone(), message]);
        // Equal parts that are not the same ones, as after a restart.
        let parts = version.iter().map(|part| Arc::new(Part::clone(part))).collect();
        let message = keep(&store, Message { parts, ..assistant("ses_1", "msg_1", "msg_0") }).await;
        assert_eq!(kept(&store, "ses_1").await, [first.clone(), message]);
    }
}

/// Neither ids nor times nor later saves matter.
pub async fn messages_stay_in_the_order_of_their_first_save(store: Arc<dyn Store>) {
    with_session(&store, "ses_1").await;
    with_session(&store, "ses_2").await;
    let ids = ["c", "a", "d", "b"];
    for (number, id) in ids.into_iter().enumerate() {
        keep(&store, Message { created: Time(100 - number as u64), ..user("ses_1", id) }).await;
        keep(&store, user("ses_2", &format!("between {id}"))).await;
    }
    let mut expected = Vec::new();
    for id in ["b", "c", "d", "a"] {
        let parts = vec![text_part("again", id)];
        keep(&store, Message { parts, ..user("ses_1", id) }).await;
    }
    for id in ids {
        expected.push(seen_message(&Message { parts: vec![text_part("again", id)], ..user("ses_1", id) }));
    }
    assert_eq!(kept(&store, "ses_1").await, expected);
}

/// In the order of their first save; and what comes after is as if they had never been.
pub async fn a_message_can_replace_the_one_with_its_id_and_all_after_it(store: Arc<dyn Store>) {
    with_session(&store, "ses_1").await;
    with_session(&store, "ses_2").await;
    let first = keep(&store, user("ses_1", "z")).await;
    let answer = keep(&store, assistant("ses_1", "y", "z")).await;
    for message in [user("ses_1", "x"), assistant("ses_1", "w", "x"), user("ses_1", "a")] {
        keep(&store, message).await;
    }
    let other = keep(&store, user("ses_2", "x")).await;
    let replace = async |message: Message| {
        store.replace_from(&Arc::new(message.clone())).await.unwrap();
        seen_message(&message)
    };
    let anew = replace(Message { parts: parts(), ..user("ses_1", "x") }).await;
    assert_eq!(kept(&store, "ses_1").await, [first.clone(), answer.clone(), anew.clone()]);
    assert_eq!(kept(&store, "ses_2").await, std::slice::from_ref(&other));
    assert!(open_turns(&store).await.contains(&"ses_1/x".to_owned()));
    // There is nothing to replace.
    let new = replace(user("ses_1", "new")).await;
    replace(user("nowhere", "z")).await;
    assert_eq!(kept(&store, "nowhere").await, [""; 0]);
    assert_eq!(kept(&store, "ses_1").await, [first, answer, anew, new]);
    let first = replace(user("ses_1", "z")).await;
    assert_eq!(open_turns(&store).await, ["ses_1/z", "ses_2/x"]);
    assert_eq!(kept(&store, "ses_1").await, [first]);
    assert_eq!(kept(&store, "ses_2").await, [other]);
}

/// Before there is a session, and after it was deleted.
pub async fn a_message_without_a_session_is_not_kept(store: Arc<dyn Store>) {
    keep(&store, user("ses_1", "msg_1")).await;
    assert_eq!(kept(&store, "ses_1").await, [""; 0]);
    with_session(&store, "ses_1").await;
    assert_eq!(kept(&store, "ses_1").await, [""; 0]);
    keep(&store, user("ses_1", "msg_1")).await;
    store.delete_session(&session_id("ses_1")).await.unwrap();
    keep(&store, user("ses_1", "msg_1")).await;
    with_session(&store, "ses_1").await;
    assert_eq!(kept(&store, "ses_1").await, [""; 0]);
    assert_eq!(open_turns(&store).await, [""; 0]);
}

/// The same id in another session is another message.
pub async fn a_message_is_known_by_its_session_and_id(store: Arc<dyn Store>) {
    with_session(&store, "ses_1").await;
    with_session(&store, "ses_2").await;
    let one = keep(&store, user("ses_1", "msg_1")).await;
    let other = Message { parts: vec![text_part("prt_9", "other")], ..user("ses_2", "msg_1") };
    let other = keep(&store, other).await;
    assert_eq!(kept(&store, "ses_1").await, [one]);
    assert_eq!(kept(&store, "ses_2").await, [other]);
    // A turn that is over in one session is open in the other.
    keep(&store, completed(assistant("ses_1", "msg_2", "msg_1"), Some(Time(1)))).await;
    keep(&store, answered("ses_1", "msg_1")).await;
    assert_eq!(open_turns(&store).await, ["ses_2/msg_1"]);
    for (session, message, expected) in
        [("ses_1", "msg_1", true), ("ses_1", "msg_2", true), ("ses_2", "msg_2", false), ("ses_3", "msg_1", false)]
    {
        let message = MessageId::parse(message).unwrap();
        let before = store.newest_messages(&session_id(session), Some(&message), 1).await.unwrap();
        assert_eq!(before.is_some(), expected, "{session}/{message}");
    }
}

/// Whatever answers there are.
pub async fn a_turn_is_open_until_its_message_is_saved_without_it(store: Arc<dyn Store>) {
    with_session(&store, "ses_1").await;
    keep(&store, user("ses_1", "one")).await;
    keep(&store, answered("ses_1", "told")).await;
    keep(&store, user("ses_1", "another")).await;
    assert_eq!(open_turns(&store).await, ["ses_1/one", "ses_1/another"]);
    let answer = assistant("ses_1", "answer", "one");
    keep(&store, answer.clone()).await;
    keep(&store, completed(answer, Some(Time(1)))).await;
    assert_eq!(open_turns(&store).await, ["ses_1/one", "ses_1/another"]);
    keep(&store, Message { parts: parts(), ..user("ses_1", "another") }).await;
    keep(&store, answered("ses_1", "one")).await;
    assert_eq!(open_turns(&store).await, ["ses_1/another"]);
    // It is answered once more.
    keep(&store, user("ses_1", "one")).await;
    assert_eq!(open_turns(&store).await, ["ses_1/one", "ses_1/another"]);
    let left = store.open_turns().await.unwrap();
    let expected = [user("ses_1", "one"), Message { parts: parts(), ..user("ses_1", "another") }];
    assert_eq!(seen_messages(&left), expected.map(|message| seen_message(&message)));
}

/// New ones and known ones.
pub async fn messages_are_saved_together(store: Arc<dyn Store>) {
    with_session(&store, "ses_1").await;
    keep(&store, user("ses_1", "one")).await;
    let saved = [completed(assistant("ses_1", "answer", "one"), Some(Time(1))), answered("ses_1", "one")].map(Arc::new);
    store.save_messages(saved.to_vec(), IfFull::Fails).await.unwrap();
    store.save_messages(Vec::new(), IfFull::Fails).await.unwrap();
    assert_eq!(kept(&store, "ses_1").await, [seen_message(&saved[1]), seen_message(&saved[0])]);
    assert_eq!(open_turns(&store).await, [""; 0]);
}

fn message_id(text: &str) -> MessageId {
    MessageId::parse(text).unwrap()
}

/// All of them in their order, in pages that are bounded by count and by bytes; a larger one comes alone.
pub async fn messages_are_read_a_page_at_a_time(store: Arc<dyn Store>) {
    let missing = store.messages_after(&session_id("ses_1"), None, Most::items(10)).await.unwrap();
    assert!(missing.is_none());
    with_session(&store, "ses_1").await;
    with_session(&store, "ses_2").await;
    let empty = store.messages_after(&session_id("ses_1"), None, Most::items(10)).await.unwrap().unwrap();
    assert!(empty.items.is_empty() && !empty.has_more);
    let sizes = [10, 10, 10_000, 10, 200_000, 10, 40_000, 40_000, 40_000, 10];
    let mut whole = Vec::new();
    for (number, size) in sizes.into_iter().enumerate() {
        let said = text_part("prt_1", &"x".repeat(size));
        let parts = vec![said, text_part("prt_2", "")];
        // The order is that of saving, not of ids, and others come between.
        whole.push(keep(&store, Message { parts, ..user("ses_1", &format!("msg_{}", 9 - number)) }).await);
        keep(&store, user("ses_2", &format!("msg_{number}"))).await;
    }
    let bounds = [(1, usize::MAX), (3, usize::MAX), (100, usize::MAX), (100, 1), (100, 50_000), (3, 100_000)];
    for (items, bytes) in bounds {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let most = Most { items, bytes };
            let page = store.messages_after(&session_id("ses_1"), after.as_ref(), most).await.unwrap().unwrap();
            let texts = seen_messages(&page.items);
            let total: usize = texts.iter().map(String::len).sum();
            assert!(page.items.len() == 1 || (page.items.len() <= items && total <= bytes.saturating_add(10_000)));
            assert!(!page.items.is_empty(), "{items} messages, {bytes} bytes");
            seen.extend(texts);
            let Some(last) = page.items.last().filter(|_| page.has_more) else { break };
            after = Some(last.id.clone());
        }
        assert_eq!(seen, whole, "{items} messages, {bytes} bytes");
    }
    let after_last = store.messages_after(&session_id("ses_1"), Some(&message_id("msg_0")), Most::items(10));
    assert!(after_last.await.unwrap().is_some_and(|page| page.items.is_empty() && !page.has_more));
    for (session, after) in [("ses_1", "other"), ("ses_3", "msg_1")] {
        let gone = store.messages_after(&session_id(session), Some(&message_id(after)), Most::items(10)).await;
        assert!(gone.unwrap().is_none(), "{session} {after}");
    }
}

/// By count, backwards, also while messages come and the newest go.
pub async fn the_newest_messages_are_found_from_any_of_them(store: Arc<dyn Store>) {
    with_session(&store, "ses_1").await;
    with_session(&store, "ses_2").await;
    for number in 0..9 {
        keep(&store, user("ses_1", &format!("msg_{}", 8 - number))).await;
        keep(&store, user("ses_2", &format!("msg_{number}"))).await;
    }
    let newest = async |before: Option<&str>, most: usize| {
        let before = before.map(message_id);
        let found = store.newest_messages(&session_id("ses_1"), before.as_ref(), most).await.unwrap();
        found.map(|ids| ids.iter().map(|id| id.to_string()).collect::<Vec<_>>())
    };
    assert_eq!(newest(None, 3).await.unwrap(), ["msg_0", "msg_1", "msg_2"]);
    keep(&store, user("ses_1", "msg_new")).await;
    assert_eq!(newest(Some("msg_2"), 3).await.unwrap(), ["msg_3", "msg_4", "msg_5"]);
    store.replace_from(&Arc::new(user("ses_1", "msg_1"))).await.unwrap();
    assert_eq!(newest(None, 3).await.unwrap(), ["msg_1", "msg_2", "msg_3"]);
    assert_eq!(newest(Some("msg_5"), 100).await.unwrap(), ["msg_6", "msg_7", "msg_8"]);
    assert_eq!(newest(Some("msg_8"), 100).await.unwrap(), [""; 0]);
    assert_eq!(newest(None, 0).await.unwrap(), [""; 0]);
    assert_eq!(newest(Some("msg_0"), 100).await, None);
}
