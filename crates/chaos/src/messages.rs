//! Whole HTTP requests that come late, twice, or whose answer is lost. What comes on a stream is left to
//! [`frames`](crate::frames) and [`sockets`](crate::sockets).

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, UPGRADE};
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper::{Request, Response, StatusCode, client, server};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::plan::Range;
use crate::weather::{Chance, Fault, Weather};
use crate::{Tasks, frames, sockets};

/// The largest body of a request; a larger one ends the connection.
const LARGEST: usize = 16 * 1024 * 1024;
/// How long a request may go on whose answer nobody takes.
const UNANSWERED: Duration = Duration::from_secs(2);
/// How long a stream that nobody reads is held open.
const UNREAD: Duration = Duration::from_millis(200);
/// What concerns one connection and not the next. `Upgrade` does too, but what the server speaks is spoken here as well.
const HOP_BY_HOP: [&str; 6] = ["connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding"];

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Body = UnsyncBoxBody<Bytes, Failure>;

/// Serves HTTP, and asks `upstream` for the answers.
pub(crate) async fn serve(listener: TcpListener, upstream: Arc<str>, weather: Arc<Weather>, tasks: Tasks) {
    let messages = Messages { upstream, weather, tasks: tasks.clone() };
    loop {
        let (socket, place) = tasks.accept(&listener).await;
        let messages = messages.clone();
        tasks.spawn(async move {
            let service = service_fn(move |request| messages.clone().answer(request));
            let connection = server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service);
            // It ends with an error whenever an answer is lost or a peer goes.
            _ = connection.with_upgrades().await;
            drop(place);
        });
    }
}

#[derive(Clone)]
struct Messages {
    upstream: Arc<str>,
    weather: Arc<Weather>,
    tasks: Tasks,
}

/// A request, all of it.
type Whole = Request<Full<Bytes>>;
type Answered = Result<Response<Incoming>, Failure>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Upgrade,
}

/// One delivery of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Delivery {
    after: Duration,
    answers: bool,
}

impl Messages {
    /// An error ends the connection, and the client has no answer.
    async fn answer(self, mut request: Request<Incoming>) -> Result<Response<Body>, Failure> {
        let upgrade = hyper::upgrade::on(&mut request);
        let (mut head, body) = request.into_parts();
        let kind = if head.headers.contains_key(UPGRADE) { Kind::Upgrade } else { Kind::Plain };
        head.headers = end_to_end(&head.headers, kind);
        let body = Limited::new(body, LARGEST).collect().await?.to_bytes();
        let whole = Whole::from_parts(head, Full::new(body));
        let mut answer = None;
        for delivery in self.deliveries() {
            let (tell, told) = oneshot::channel();
            // A task of its own: what has been sent arrives, whether or not its sender is still there.
            self.tasks.spawn(self.clone().deliver(whole.clone(), delivery, tell));
            if delivery.answers {
                answer = Some(told);
            }
        }
        let response = answer.ok_or("the answer is lost")?.await??;
        Ok(self.pass_on(response, upgrade))
    }

    /// When the request is delivered, and which delivery is answered: one at most.
    fn deliveries(&self) -> Vec<Delivery> {
        let (plan, mut chance) = (&self.weather.plan, self.weather.chance());
        let at_once = Delivery { after: Duration::ZERO, answers: true };
        if !self.weather.is_stormy() {
            return vec![at_once];
        }
        if chance.happens(plan.answer_loss) {
            self.weather.note(Fault::AnswerLost);
            return vec![Delivery { answers: false, ..at_once }];
        }
        if chance.happens(plan.request_repeat) {
            self.weather.note(Fault::RequestRepeated);
            return repeated(&mut chance, plan.delay);
        }
        if chance.happens(plan.request_delay) {
            self.weather.note(Fault::RequestDelayed);
            return vec![Delivery { after: chance.time(plan.delay), ..at_once }];
        }
        vec![at_once]
    }

    async fn deliver(self, whole: Whole, delivery: Delivery, mut tell: oneshot::Sender<Answered>) {
        self.weather.pass_time(delivery.after).await;
        let mut sending = pin!(self.send(whole));
        let answered = tokio::select! {
            answered = &mut sending => answered,
            // It is delivered all the same, but a server that thinks about it for long is not kept waiting.
            () = tell.closed() => match timeout(UNANSWERED, sending).await {
                Ok(answered) => answered,
                Err(_) => return,
            },
        };
        if let Err(Ok(unread)) = tell.send(answered) {
            ignore(unread).await;
        }
    }

    async fn send(&self, whole: Whole) -> Answered {
        let socket = TcpStream::connect(&*self.upstream).await?;
        socket.set_nodelay(true)?;
        let (mut sender, connection) = client::conn::http1::handshake(TokioIo::new(socket)).await?;
        self.tasks.spawn(connection.with_upgrades());
        Ok(sender.send_request(whole).await?)
    }

    /// The server's answer, as the client gets it.
    fn pass_on(&self, mut response: Response<Incoming>, client: OnUpgrade) -> Response<Body> {
        let weather = Arc::clone(&self.weather);
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let server = hyper::upgrade::on(&mut response);
            self.tasks.spawn(async move {
                // A connection that is cut meanwhile has nothing to be relayed.
                if let Ok((client, server)) = tokio::try_join!(client, server) {
                    sockets::relay(weather, client, server).await;
                }
            });
            *response.headers_mut() = end_to_end(response.headers(), Kind::Upgrade);
            return response.map(|body| body.map_err(Failure::from).boxed_unsync());
        }
        *response.headers_mut() = end_to_end(response.headers(), Kind::Plain);
        let is_stream = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream");
        response.map(|body| {
            if is_stream {
                let frames = frames::through(weather, body).map(|frame| Ok(Frame::data(frame?)));
                StreamBody::new(frames).boxed_unsync()
            } else {
                body.map_err(Failure::from).boxed_unsync()
            }
        })
    }
}

/// The deliveries of a request that comes twice: at once or later, either of them answered.
fn repeated(chance: &mut Chance, delay: Range) -> Vec<Delivery> {
    let later = if chance.even() { chance.time(delay) } else { Duration::ZERO };
    let first_answers = chance.even();
    vec![Delivery { after: Duration::ZERO, answers: first_answers }, Delivery { after: later, answers: !first_answers }]
}

/// Takes an answer that goes to nobody. A stream or a socket is held open for a while: the server believes in it.
async fn ignore(mut answer: Response<Incoming>) {
    let taking = async {
        if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
            let _held = hyper::upgrade::on(&mut answer).await;
            std::future::pending::<()>().await;
        }
        _ = answer.into_body().collect().await;
    };
    _ = timeout(UNREAD, taking).await;
}

/// The headers that are not about one connection alone; a handshake is, and says so.
fn end_to_end(headers: &HeaderMap, kind: Kind) -> HeaderMap {
    let mut kept = headers.clone();
    for named in headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok()) {
        for name in named.split(',').map(str::trim).filter(|name| !name.eq_ignore_ascii_case("upgrade")) {
            kept.remove(name);
        }
    }
    for name in HOP_BY_HOP {
        kept.remove(name);
    }
    if kind == Kind::Upgrade {
        // Messages are read here: nothing may be agreed on that would change how they are written.
        kept.remove(HeaderName::from_static("sec-websocket-extensions"));
        kept.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    }
    kept
}
