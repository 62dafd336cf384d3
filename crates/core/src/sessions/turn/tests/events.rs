//! What listeners are told.

use super::*;

/// All events until the session is idle, briefly.
pub(super) async fn until_idle(events: &mut Subscription) -> Vec<String> {
    let mut told = Vec::new();
    loop {
        let event = match events.next().await.unwrap().event.clone() {
            Event::Session(_, SessionEvent::Said(message)) => {
                told.push("user".to_owned());
                format!("said {}", brief_unfinished(&message))
            }
            Event::Session(_, SessionEvent::Snapshot { part, delta, message }) => part_told(part, message, &delta),
            Event::Session(_, SessionEvent::Turn(TurnEvent::Part { part, message })) => part_told(part, message, ""),
            Event::Session(_, SessionEvent::Turn(TurnEvent::Grew { field, delta, .. })) => {
                format!("delta {field:?} {delta:?}")
            }
            Event::Session(_, SessionEvent::Turn(TurnEvent::StepBegan(message) | TurnEvent::StepDone(message))) => {
                format!("assistant {}", message.is_complete())
            }
            Event::Session(_, SessionEvent::Idle) => return told,
            Event::Session(_, event) => format!("{event:?}"),
            Event::Requested(_) => "requested".to_owned(),
            Event::Executing(_) => "executing".to_owned(),
            Event::Finished(_) => "finished".to_owned(),
            Event::Asked(_) => "asked".to_owned(),
            Event::Answered(_, reply) => format!("answered {reply:?}"),
            other => format!("{other:?}"),
        };
        told.push(event);
    }
}

fn part_told(part: Arc<Part>, message: MessageId, delta: &str) -> String {
    let message = Message { parts: vec![part], ..assistant_shell(message) };
    format!("part {} {delta:?}", brief_unfinished(&message))
}

fn brief_unfinished(message: &Message) -> String {
    brief(message).pop().unwrap()
}

#[tokio::test(start_paused = true)]
async fn listeners_are_told_every_step_in_order() {
    let mut first = vec![Said::Event(ModelEvent::Reasoning("hm".to_owned()))];
    first.extend(calls(&[("client_tab_a", r#"{"n":1}"#)]));
    let with = With { permission: Permission::Ask, ..With::default() };
    let world = World::with(vec![first, text("done")], with);
    let session = world.session().await;
    let mut listener = world.hub().subscribe(Topic::Everything);
    let mut connection = world.connect();
    let _prompted = world.say(&session, "go").await.unwrap();
    let asks = world.until_asked(1).await;
    world.reply(&asks[0], Reply::Once, None).await.unwrap();
    let (request, ..) = offered(&mut connection).await;
    world.complete(&request, "ok").await;
    let expected = [
        "user",
        "said text go",
        "Updated",
        "Busy",
        "assistant false",
        "part start \"\"",
        "delta Reasoning \"hm\"",
        "part reasoning hm \"hm\"",
        "part reasoning hm \"\"",
        "part client_tab_a pending  \"\"",
        "delta Arguments \"{\\\"n\\\":1}\"",
        "part client_tab_a pending {\"n\":1} \"{\\\"n\\\":1}\"",
        "part client_tab_a running {\"n\":1} \"\"",
        "asked",
        "answered Once",
        "requested",
        "executing",
        "finished",
        "part client_tab_a {\"n\":1} → ok \"\"",
        "part finish tool-calls \"\"",
        "assistant true",
        "assistant false",
        "part start \"\"",
        "delta Text \"done\"",
        "part text done \"done\"",
        "part text done \"\"",
        "part finish stop \"\"",
        "assistant true",
        "Updated",
    ];
    assert_eq!(until_idle(&mut listener).await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_long_answer_costs_listeners_no_more_than_in_proportion() {
    const PIECES: usize = 100_000;
    let mut said: Vec<Said> = (0..PIECES).map(|_| Said::Event(ModelEvent::Text("word ".to_owned()))).collect();
    said.push(stop(StopReason::Stop));
    let world = World::new(vec![said]);
    let session = world.session().await;
    let mut listener = world.hub().subscribe(Topic::Everything);
    let _prompted = world.say(&session, "go").await.unwrap();
    let (mut pieces, mut shown, mut deltas) = (String::new(), 0, String::new());
    loop {
        match listener.next().await.expect("a listener that reads is not left behind").event.clone() {
            Event::Session(_, SessionEvent::Turn(TurnEvent::Grew { delta, .. })) => pieces.push_str(&delta),
            Event::Session(_, SessionEvent::Snapshot { part, delta, .. }) => {
                if let PartBody::Text { text, .. } = &part.body {
                    shown += text.len();
                    deltas.push_str(&delta);
                    assert_eq!(deltas.len(), text.len());
                }
            }
            Event::Session(_, SessionEvent::Idle) => break,
            _ => {}
        }
    }
    assert_eq!(pieces.len(), PIECES * 5);
    assert!(shown < 40 * pieces.len(), "{shown}");
}
