use futures_util::stream;

use super::*;

fn reader(chunks: Vec<Bytes>) -> EventReader {
    EventReader::new(stream::iter(chunks.into_iter().map(Ok)), Duration::from_secs(90))
}

#[tokio::test]
async fn events_are_read_across_chunks() {
    let text = ": comment\n\nevent: ping\ndata: \n\nid: e-2\n\ndata: {\"a\":\ndata: 1}\n\ndata: cut off";
    let mut reader = reader(text.as_bytes().chunks(7).map(Bytes::copy_from_slice).collect());
    let mut seen = Vec::new();
    let end = loop {
        match reader.next().await {
            Ok(Sse { event, data, id, .. }) => seen.push((event, data, id)),
            Err(reason) => break reason,
        }
    };
    let text = |text: &str| Some(text.to_owned());
    let expected = [(text("ping"), text(""), None), (None, None, text("e-2")), (None, text("{\"a\":\n1}"), None)];
    assert_eq!((&seen[..], end.as_str()), (&expected[..], "the server ended the stream"));
}

#[tokio::test]
async fn an_event_larger_than_the_limit_ends_the_stream() {
    let mut chunks = vec![Bytes::from_static(b"event: ping\ndata: \n\n"), Bytes::from_static(b"data: ")];
    chunks.extend(vec![Bytes::from(vec![b'x'; 1024 * 1024]); 9]);
    let mut reader = reader(chunks);
    assert_eq!(reader.next().await.map(|event| event.event), Ok(Some("ping".to_owned())));
    assert_eq!(reader.next().await.err(), Some("an event is larger than 8388608 bytes".to_owned()));
    assert_eq!(reader.next().await.err(), Some("the server ended the stream".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn comments_keep_a_connection_alive_and_silence_ends_it() {
    let comments = stream::iter(0..3).then(|_| async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        Ok(Bytes::from_static(b": keep-alive\n\n"))
    });
    let began = tokio::time::Instant::now();
    let mut reader = EventReader::new(comments.chain(stream::pending()), Duration::from_secs(90));
    assert_eq!(reader.next().await.err(), Some("the server is silent".to_owned()));
    assert_eq!(began.elapsed(), Duration::from_secs(3 * 60 + 90));
}
