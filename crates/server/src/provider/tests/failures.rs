//! What happens when a provider fails, stalls, is cut off, or is not wanted any more.

use std::time::Duration;

use futures_util::StreamExt;
use handback_core::sessions::ModelEvent;
use tokio::net::TcpListener;
use tokio::time::{Instant, timeout};

use super::fake::{Fake, STREAM};
use super::{BOTH, Wire, ask, collect, failure, hello, provider_error, settings};
use crate::provider::RequestBounds;

const SOON: Duration = Duration::from_millis(80);

#[tokio::test]
async fn nothing_is_asked_before_the_stream_is_polled() {
    for wire in BOTH {
        let fake = Fake::start().await;
        let model = wire.model(settings(wire, &fake));
        let stream = ask(&*model);
        fake.is_left_alone().await;
        let (events, _) = tokio::join!(collect(stream), fake.stream(wire.stream()));
        assert_eq!(events, hello());
        fake.is_left_alone().await;
    }
}

#[tokio::test]
async fn a_silence_before_the_head_is_an_error() {
    for wire in BOTH {
        let fake = Fake::start().await;
        let mut settings = settings(wire, &fake);
        settings.bounds.first_byte = SOON;
        let model = wire.model(settings);
        let (error, ()) = tokio::join!(failure(ask(&*model)), async { fake.request().await.is_closed().await });
        let message = format!("{}/some-model sent nothing for 80 ms", wire.name());
        assert_eq!(error, provider_error(&message, None, true));
        fake.is_left_alone().await;
    }
}

#[tokio::test]
async fn a_silence_after_the_head_is_an_error() {
    for wire in BOTH {
        let fake = Fake::start().await;
        let mut settings = settings(wire, &fake);
        settings.bounds.first_byte = SOON;
        let model = wire.model(settings);
        let (error, ()) = tokio::join!(failure(ask(&*model)), async {
            let mut request = fake.request().await;
            request.send(STREAM).await;
            request.is_closed().await;
        });
        let message = format!("{}/some-model sent nothing for 80 ms", wire.name());
        assert_eq!(error, provider_error(&message, None, true));
    }
}

#[tokio::test]
async fn a_silence_in_the_middle_is_an_error() {
    for wire in BOTH {
        let fake = Fake::start().await;
        let mut settings = settings(wire, &fake);
        settings.bounds.stall = SOON;
        let model = wire.model(settings);
        let (events, ()) = tokio::join!(collect(ask(&*model)), async {
            let mut request = fake.request().await;
            request.send(STREAM).await;
            request.chunks([wire.frames()[0].as_bytes()]).await;
            request.is_closed().await;
        });
        let message = format!("{}/some-model sent nothing for 80 ms", wire.name());
        assert_eq!(events, [Ok(ModelEvent::Text("Hel".to_owned())), Err(provider_error(&message, None, true))]);
        fake.is_left_alone().await;
    }
}

#[tokio::test]
async fn a_cut_at_any_frame_is_an_error_until_the_model_was_done() {
    for wire in BOTH {
        let fake = Fake::start().await;
        let model = wire.model(settings(wire, &fake));
        let frames = wire.frames();
        for kept in 0..=frames.len() {
            for is_proper in [true, false] {
                let (events, ()) = tokio::join!(collect(ask(&*model)), async {
                    let mut request = fake.request().await;
                    request.send(STREAM).await;
                    request.chunks([frames[..kept].concat().as_bytes()]).await;
                    if is_proper {
                        request.end().await;
                    }
                });
                let cause = if is_proper { "" } else { ": the connection was closed" };
                let cut =
                    provider_error(&format!("{}/some-model cut its answer short{cause}", wire.name()), None, true);
                let expected = match kept {
                    0 => vec![Err(cut)],
                    1 => vec![Ok(ModelEvent::Text("Hel".to_owned())), Err(cut)],
                    2 => vec![Ok(ModelEvent::Text("Hello".to_owned())), Err(cut)],
                    _ => hello(),
                };
                assert_eq!(events, expected, "{wire:?}, {kept} frames, proper: {is_proper}");
            }
        }
        fake.is_left_alone().await;
    }
}

/// Some servers give a reason to stop with every chunk; then the last one is not known to be the last.
#[tokio::test]
async fn a_cut_after_reasons_to_stop_that_were_none_is_an_error() {
    let fake = Fake::start().await;
    let model = Wire::OpenAi.model(settings(Wire::OpenAi, &fake));
    let chunk = r#"data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}"#;
    let answer = async {
        let mut request = fake.request().await;
        request.send(STREAM).await;
        request.chunks([format!("{chunk}\n\n{chunk}\n\n").as_bytes()]).await;
        // Without the end of the body.
        drop(request);
    };
    let (events, ()) = tokio::join!(collect(ask(&*model)), answer);
    assert!(matches!(&events[..], [Ok(ModelEvent::Text(text)), Err(_)] if text == "aa"), "{events:?}");
}

#[tokio::test]
async fn a_cut_within_a_frame_is_an_error() {
    for wire in BOTH {
        let fake = Fake::start().await;
        let model = wire.model(settings(wire, &fake));
        let frame = wire.frames().swap_remove(0);
        // The empty line that ends a frame belongs to it.
        for kept in 1..frame.len() {
            let (error, ()) = tokio::join!(failure(ask(&*model)), async {
                let mut request = fake.request().await;
                request.send(STREAM).await;
                request.chunks([&frame.as_bytes()[..kept]]).await;
                request.end().await;
            });
            let message = format!("{}/some-model cut its answer short", wire.name());
            assert_eq!(error, provider_error(&message, None, true), "{kept} bytes");
        }
    }
}

#[tokio::test]
async fn a_failure_that_may_pass_is_tried_again() {
    for wire in BOTH {
        let fake = Fake::start().await;
        let model = wire.model(settings(wire, &fake));
        for status in ["408 Request Timeout", "500 Oops", "502 Bad", "503 Busy", "504 Late", "529 Overloaded"] {
            let (events, bodies) = tokio::join!(collect(ask(&*model)), async {
                let first = fake.refuse(status, "", r#"{"error":{"message":"later"}}"#).await;
                // The second is closed without an answer.
                let second = fake.request().await.body;
                let third = fake.stream(wire.stream()).await;
                [first.body, second, third.body]
            });
            assert_eq!(events, hello(), "{status}");
            assert_eq!(bodies[0], bodies[1]);
            assert_eq!(bodies[0], bodies[2]);
        }
        fake.is_left_alone().await;
    }
}

#[tokio::test]
async fn tries_are_bounded_and_the_last_failure_is_told() {
    for wire in BOTH {
        let fake = Fake::start().await;
        let model = wire.model(settings(wire, &fake));
        let (error, ()) = tokio::join!(failure(ask(&*model)), async {
            for count in 1..=3 {
                let body = format!(r#"{{"error":{{"message":"busy {count}","type":"server_error"}}}}"#);
                fake.refuse("503 Service Unavailable", "", &body).await;
            }
        });
        let message = format!("{}/some-model answered 503 Service Unavailable, 3 times: busy 3", wire.name());
        assert_eq!(error, provider_error(&message, Some(503), true));
        fake.is_left_alone().await;
    }
}

#[tokio::test]
async fn retry_after_is_waited_for_up_to_a_bound() {
    for wire in BOTH {
        let fake = Fake::start().await;
        let mut settings = settings(wire, &fake);
        settings.bounds.retry_after = Duration::from_secs(5);
        let model = wire.model(settings);
        let began = Instant::now();
        let (events, _) = tokio::join!(collect(ask(&*model)), async {
            fake.refuse("429 Too Many Requests", "Retry-After: 0.25\r\n", "").await;
            fake.stream(wire.stream()).await
        });
        assert_eq!(events, hello());
        assert!(began.elapsed() >= Duration::from_millis(250));

        let (error, _) =
            tokio::join!(failure(ask(&*model)), fake.refuse("429 Too Many Requests", "Retry-After: 3600\r\n", ""));
        let message =
            format!("{}/some-model answered 429 Too Many Requests and wants to be asked again in 3600 s", wire.name());
        assert_eq!(error, provider_error(&message, Some(429), true));
        fake.is_left_alone().await;
    }
}

#[tokio::test]
async fn a_server_that_is_not_up_yet_is_tried_again() {
    for wire in BOTH {
        let fake = Fake::start().await;
        let mut settings = settings(wire, &fake);
        settings.bounds = RequestBounds { tries: 8, backoff: Duration::from_millis(100), ..settings.bounds };
        let model = wire.model(settings);
        let Fake { listener, url } = fake;
        let address = listener.local_addr().unwrap();
        drop(listener);
        let mut answer = std::pin::pin!(collect(ask(&*model)));
        assert!(timeout(Duration::from_millis(50), &mut answer).await.is_err(), "it is still tried");
        let fake = Fake { listener: TcpListener::bind(address).await.unwrap(), url };
        let (events, _) = tokio::join!(answer, fake.stream(wire.stream()));
        assert_eq!(events, hello());
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    for wire in BOTH {
        let fake = Fake::start().await;
        let model = wire.model(settings(wire, &fake));
        let address = fake.url.strip_suffix("/v1").unwrap().to_owned();
        drop(fake);
        let message = format!(
            "{}/some-model cannot be reached at {address}, 3 times: Connection refused (os error 111)",
            wire.name()
        );
        assert_eq!(failure(ask(&*model)).await, provider_error(&message, None, true));
    }
}

#[tokio::test]
async fn an_error_in_the_middle_ends_the_stream_and_is_never_tried_again() {
    let openai = [
        (
            r#"{"error":{"message":"The server had an error","type":"server_error","code":null}}"#,
            None,
            true,
            "The server had an error (server_error)",
        ),
        (
            r#"{"error":{"code":502,"message":"Provider returned error","metadata":{"raw":"upstream died"}},"choices":[]}"#,
            Some(502),
            true,
            "Provider returned error: upstream died",
        ),
        (r#"{"error":"model runner has stopped"}"#, None, false, "model runner has stopped"),
        (r#"{"object":"error","message":"out of memory","code":400}"#, None, false, "out of memory"),
    ];
    let anthropic = [
        (
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            None,
            true,
            "Overloaded (overloaded_error)",
        ),
        (
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"No"}}"#,
            None,
            false,
            "No (invalid_request_error)",
        ),
    ];
    let cases =
        openai.map(|case| (Wire::OpenAi, case)).into_iter().chain(anthropic.map(|case| (Wire::Anthropic, case)));
    for (wire, (data, status, retryable, words)) in cases {
        let fake = Fake::start().await;
        let model = wire.model(settings(wire, &fake));
        let body = format!("{}event: error\ndata: {data}\n\n{}", wire.frames()[0], wire.frames()[1]);
        let (events, _) = tokio::join!(collect(ask(&*model)), fake.stream(&body));
        let message = format!("{}/some-model failed while it answered: {words}", wire.name());
        let expected = [Ok(ModelEvent::Text("Hel".to_owned())), Err(provider_error(&message, status, retryable))];
        assert_eq!(events, expected);
        fake.is_left_alone().await;
    }
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    for wire in BOTH {
        let fake = Fake::start().await;
        let model = wire.model(settings(wire, &fake));
        // While the model speaks.
        let mut stream = ask(&*model);
        let (event, mut request) = tokio::join!(stream.next(), async {
            let mut request = fake.request().await;
            request.send(STREAM).await;
            request.chunks([wire.frames()[0].as_bytes()]).await;
            request
        });
        assert_eq!(event, Some(Ok(ModelEvent::Text("Hel".to_owned()))));
        drop(stream);
        request.is_closed().await;
        // Before it has said anything.
        let mut stream = ask(&*model);
        let mut request = tokio::select! {
            event = stream.next() => panic!("{event:?}"),
            request = fake.request() => request,
        };
        drop(stream);
        request.is_closed().await;
        fake.is_left_alone().await;
    }
}

#[tokio::test]
async fn sizes_are_bounded() {
    for wire in BOTH {
        let fake = Fake::start().await;
        let mut settings = settings(wire, &fake);
        settings.bounds = RequestBounds { event_bytes: 1000, answer_bytes: 3000, ..settings.bounds };
        let model = wire.model(settings);
        let huge = format!("data: {}", "x".repeat(1000));
        let (error, ()) = tokio::join!(failure(ask(&*model)), async {
            let mut request = fake.request().await;
            request.send(STREAM).await;
            request.chunks(huge.as_bytes().chunks(100)).await;
            request.is_closed().await;
        });
        let message = format!("{}/some-model sent more than 1000 bytes in one event", wire.name());
        assert_eq!(error, provider_error(&message, None, false));

        let frame = wire.frames().swap_remove(0);
        let (events, ()) = tokio::join!(collect(ask(&*model)), async {
            let mut request = fake.request().await;
            request.send(STREAM).await;
            for _ in 0..=3000 / frame.len() {
                request.chunks([frame.as_bytes()]).await;
            }
            request.is_closed().await;
        });
        let message = format!("{}/some-model sent more than 3000 bytes in one answer", wire.name());
        assert_eq!(events.last(), Some(&Err(provider_error(&message, None, false))));
        let text = "Hel".repeat(3000 / frame.len());
        assert_eq!(events[..events.len() - 1], [Ok(ModelEvent::Text(text))]);
    }
}

#[tokio::test]
async fn calls_are_bounded() {
    for wire in BOTH {
        let fake = Fake::start().await;
        let model = wire.model(settings(wire, &fake));
        let call = |index: usize| match wire {
            Wire::OpenAi => format!(
                "data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"index\":{index},\"id\":\"c{index}\",\
                 \"function\":{{\"name\":\"f\",\"arguments\":\"{{}}\"}}}}]}}}}]}}\n\n"
            ),
            Wire::Anthropic => format!(
                "data: {{\"type\":\"content_block_start\",\"index\":{index},\"content_block\":{{\"type\":\"tool_use\",\
                 \"id\":\"c{index}\",\"name\":\"f\",\"input\":{{}}}}}}\n\n"
            ),
        };
        let body: String = (0..=256).map(call).collect();
        let (events, _) = tokio::join!(collect(ask(&*model)), fake.stream(&body));
        let message = format!("{}/some-model sent more than 256 tool calls in one answer", wire.name());
        assert_eq!(events.last(), Some(&Err(provider_error(&message, None, false))));
        let started = events.iter().filter(|event| matches!(event, Ok(ModelEvent::CallStarted { .. })));
        assert_eq!(started.count(), 256);
    }
}

#[tokio::test]
async fn what_is_no_utf8_is_refused() {
    for wire in BOTH {
        let fake = Fake::start().await;
        let model = wire.model(settings(wire, &fake));
        let (error, ()) = tokio::join!(failure(ask(&*model)), async {
            let mut request = fake.request().await;
            request.send(STREAM).await;
            request.chunks([&b"data: \xff\n\n"[..]]).await;
            request.end().await;
        });
        let cause = "utf8 parse error: invalid utf-8 sequence of 1 bytes from index 0";
        let message = format!("{}/some-model sent an event that cannot be read: {cause}", wire.name());
        assert_eq!(error, provider_error(&message, None, false));
    }
}

#[tokio::test]
async fn what_is_no_json_is_refused() {
    for wire in BOTH {
        let fake = Fake::start().await;
        let model = wire.model(settings(wire, &fake));
        let (error, _) = tokio::join!(failure(ask(&*model)), fake.stream("data: {\"choices\": nonsense\n\n"));
        let message =
            format!("{}/some-model sent an event that cannot be read: expected ident at line 1 column 14", wire.name());
        assert_eq!(error, provider_error(&message, None, false));
    }
}
