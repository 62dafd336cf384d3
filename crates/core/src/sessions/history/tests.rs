use proptest::prelude::*;

use super::*;
use crate::clock::Time;
use crate::id::{PartId, SessionId};
use crate::store::{AssistantMessage, ModelRef, Part, PartBody, Span, TurnError, Usage, UserMessage};

pub(in crate::sessions) fn id(name: &str) -> MessageId {
    MessageId::parse(name).unwrap()
}

fn message(name: &str, role: Role, text: &str) -> Arc<Message> {
    let (span, part) = (Span { start: Time(0), end: None }, PartId::parse("prt").unwrap());
    let part = Arc::new(Part { id: part, body: PartBody::Text { text: text.to_owned(), span } });
    let session = SessionId::parse("ses").unwrap();
    Arc::new(Message { id: id(name), session, created: Time(0), role, parts: vec![part] })
}

pub(in crate::sessions) fn user(name: &str, text: &str) -> Arc<Message> {
    let role = Role::User(UserMessage::new("default", ModelRef::parse("a/b").unwrap()));
    message(name, role, text)
}

pub(in crate::sessions) fn answer(name: &str, parent: &str, has_failed: bool) -> Arc<Message> {
    let role = Role::Assistant(AssistantMessage {
        parent: id(parent),
        agent: "default".into(),
        model: ModelRef::parse("a/b").unwrap(),
        completed: None,
        finish: None,
        usage: Usage::default(),
        error: has_failed.then(|| TurnError::Other("no".to_owned())),
        kept: None,
    });
    message(name, role, "said")
}

fn names<'a>(messages: impl IntoIterator<Item = &'a Arc<Message>>) -> Vec<String> {
    messages.into_iter().map(|message| message.id.to_string()).collect()
}

fn shown(conversation: &Conversation) -> Vec<String> {
    names(conversation.earlier().iter().chain(&conversation.turn))
}

#[test]
fn a_conversation_is_in_order_whatever_the_order_of_storing() {
    let third = user("u3", "");
    let stored = vec![
        user("u1", ""),
        answer("a1", "u1", false),
        user("u2", ""),
        answer("a1b", "u1", false),
        third.clone(),
        answer("a2", "u2", false),
        user("u4", ""),
    ];
    assert_eq!(shown(&History::of(stored).conversation(&third)), ["u1", "a1", "a1b", "u2", "a2", "u3"]);
}

#[test]
fn what_a_turn_is_shown_stays_as_it_is_while_others_change_the_history() {
    let last = user("u2", "");
    let mut history = History::of(vec![user("u1", "before"), answer("a1", "u1", false), last.clone()]);
    let conversation = history.conversation(&last);
    assert_eq!((conversation.earlier().len(), conversation.turn.len()), (2, 1));
    history.save(&user("u1", "after"));
    history.save(&answer("a2", "u2", false));
    history.delete_from(&id("u2"));
    assert_eq!(shown(&conversation), ["u1", "a1", "u2"]);
    assert!(Arc::ptr_eq(&conversation.turn[0], &last));
    assert!(format!("{:?}", conversation.earlier()[0]).contains("before"));
    assert!(format!("{:?}", history.get(&id("u1"))).contains("after"));
    assert_eq!(names(history.all()), ["u1", "a1"]);
}

/// The next turn takes over what was said in the last one without a copy of what was said before.
#[test]
fn turn_after_turn_the_same_messages_are_shared() {
    let mut history = History::default();
    for number in 0..100 {
        let asked = user(&format!("u{number}"), "");
        history.save(&asked);
        let before = history.conversation(&asked);
        assert_eq!((before.earlier().len(), before.turn.len()), (2 * number, 1));
        drop(before);
        history.save(&answer(&format!("a{number}"), &format!("u{number}"), false));
    }
    assert_eq!(history.frozen.len(), 198);
    assert_eq!(names(history.all()).len(), 200);
}

#[derive(Debug, Clone)]
enum Step {
    Save(usize, bool),
    DeleteFrom(usize),
    Turn(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..12usize, prop::bool::weighted(0.2)).prop_map(|(number, failed)| Step::Save(number, failed)),
        1 => (0..12usize).prop_map(Step::DeleteFrom),
        3 => (0..4usize).prop_map(Step::Turn),
    ]
}

/// Three messages to each user's: the user's own and two answers.
fn nth(number: usize, has_failed: bool) -> Arc<Message> {
    let asked = format!("u{}", number / 3);
    match number % 3 {
        0 => user(&asked, ""),
        place => answer(&format!("a{}{place}", number / 3), &asked, has_failed),
    }
}

proptest! {
    /// Against a plain list, whatever is saved, deleted and shown in whatever order.
    #[test]
    fn a_history_is_the_list_that_was_saved(steps in prop::collection::vec(step(), 0..60)) {
        let mut history = History::default();
        let mut list: Vec<Arc<Message>> = Vec::new();
        let mut held = None;
        for step in steps {
            match step {
                Step::Save(number, has_failed) => {
                    let saved = nth(number, has_failed);
                    history.save(&saved);
                    match list.iter_mut().find(|known| known.id == saved.id) {
                        Some(known) => *known = saved,
                        None => list.push(saved),
                    }
                }
                Step::DeleteFrom(number) => {
                    let gone = nth(number, false).id.clone();
                    history.delete_from(&gone);
                    if let Some(place) = list.iter().position(|known| known.id == gone) {
                        list.truncate(place);
                    }
                }
                Step::Turn(number) => {
                    let asked = nth(3 * number, false);
                    let conversation = history.conversation(&asked);
                    let is_left_out =
                        |message: &Message| message.answers() == Some(&asked.id) && message.failed_without_calls();
                    let stored = list.iter().filter(|message| !is_left_out(message)).cloned();
                    prop_assert_eq!(shown(&conversation), names(&put_in_order(stored, &asked)));
                    // Now and then a turn is under way while the history changes.
                    held = (number == 0).then_some(conversation);
                }
            }
            prop_assert_eq!(names(history.all()), names(&list));
            prop_assert_eq!(history.bytes(), list.iter().map(|message| weight::of_message(message)).sum::<usize>());
            for (place, message) in list.iter().enumerate() {
                prop_assert!(history.get(&message.id).is_some_and(|known| Arc::ptr_eq(known, message)));
                prop_assert_eq!(history.is_first(&message.id), place == 0);
            }
        }
        drop(held);
    }
}
