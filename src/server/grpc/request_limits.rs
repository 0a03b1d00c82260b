//! The limits that every call passes first: its memory is reserved, its request read, and its elements counted before
//! anything is decoded.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use http_body_util::Full;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response};
use prost::Message as _;
use tonic::Status;
use tonic::body::Body;
use tonic::codec::{BufferSettings, EncodeBody, SingleMessageCompressionOverride};
use tonic::codegen::Service as TowerService;
use tonic::server::NamedService;
use tonic_prost::ProstCodec;

use super::budget::{Account, Budget, Reservation};
use super::calls::{self, Call};
use super::frames::{Bounds, MESSAGE_DEADLINE, Message, Messages, Unreadable};
use super::ingest::{Arrived, Received, Unread};
use super::proto::{BatchChunk, IngestRequest, IngestResponse, ingest_request};
use super::service::Service;
use super::status::unreadable;
use super::wire;
use crate::server::metrics::Metrics;
use crate::server::peers::Visit;

/// Bytes that an open call takes besides its messages: its headers, the tasks that serve it, and a frame being read.
const CALL: usize = 32 << 10;

/// The HTTP/2 windows of a connection and of each stream, in bytes: what a peer may send that nobody has read. They count
/// towards the byte budget from a connection's first call on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// No larger than needed to keep a local connection busy, also while the sidecar closes a pass.
    Wide,
    /// The least that HTTP/2 has without a setting. For connections beyond those whose wide windows fit into the budget,
    /// as those of a thousand ranks: each of them sends little.
    Narrow,
}

impl Window {
    pub fn bytes(self) -> u32 {
        match self {
            Self::Wide => 1 << 20,
            Self::Narrow => 64 << 10,
        }
    }
}

/// A service behind its limits.
#[derive(Clone)]
pub struct Front<S> {
    inner: S,
    limits: Limits,
    /// Serves the streams of batches, which are read here and not by tonic.
    ingest: Option<Service>,
}

#[derive(Clone)]
pub struct Limits {
    pub budget: Budget,
    pub metrics: Metrics,
    /// Maximum bytes of a message that has no limit of its own.
    pub largest: usize,
}

impl<S> Front<S> {
    pub fn new(inner: S, limits: Limits) -> Self {
        Self { inner, limits, ingest: None }
    }

    /// Serves streams of batches by `service`.
    pub fn with_ingest(self, service: Service) -> Self {
        Self { ingest: Some(service), ..self }
    }
}

impl<S: NamedService> NamedService for Front<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> TowerService<Request<Body>> for Front<S>
where
    S: TowerService<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // An unknown call is refused by its path; nothing of it is read.
        let Some(call) = calls::find(request.uri().path()) else { return self.inner.call(request).boxed() };
        let peer = request.extensions().get::<Caller>().map(|caller| caller.peer.clone());
        let peer = peer.unwrap_or_else(|| Peer::new(&self.limits.budget, Window::Narrow));
        let Some(room) = peer.open() else {
            let refused = unreadable(&Unreadable::OverBudget { limit: self.limits.budget.limit() }, call);
            self.limits.metrics.batches_refused.with_label_values(&["Unavailable"]).inc();
            return futures::future::ready(Ok(refused.into_http())).boxed();
        };
        if call.path == calls::INGEST
            && let Some(service) = &self.ingest
        {
            let response = self.limits.stream(call, &peer, room, request.into_body(), service);
            return futures::future::ready(Ok(response)).boxed();
        }
        let (limits, mut inner) = (self.limits.clone(), self.inner.clone());
        async move {
            let (head, body) = request.into_parts();
            let (body, message) = match limits.whole(call, &peer, body).await {
                Ok(whole) => whole,
                Err(status) => return Ok(status.into_http()),
            };
            let response = inner.call(Request::from_parts(head, body)).await?;
            drop(message);
            // An answer may be a stream, which takes as much as the call for as long as it lasts.
            Ok(response.map(|body| Body::new(Held { body, _room: room })))
        }
        .boxed()
    }
}

impl Limits {
    fn messages(&self, call: &Call, peer: &Peer, body: Body) -> Messages {
        let bounds = Bounds { largest: call.largest.unwrap_or(self.largest), patience: MESSAGE_DEADLINE };
        Messages::new(body, peer.account.clone(), bounds, self.metrics.read_bytes.clone())
    }

    /// Reads the message of a call that has one, counts it, and reserves what decoding it takes.
    async fn whole(&self, call: &Call, peer: &Peer, body: Body) -> Result<(Body, Option<Reservation>), Status> {
        let refuse = |error: Unreadable| {
            let status = unreadable(&error, call);
            self.metrics.batches_refused.with_label_values(&[format!("{:?}", status.code()).as_str()]).inc();
            status
        };
        let mut messages = self.messages(call, peer, body).due();
        let message = match messages.next().await {
            Some(message) => message.map_err(refuse)?,
            // tonic answers a call without a message.
            None => return Ok((Body::empty(), None)),
        };
        let (bytes, mut room) = (message.bytes, message.room);
        let decoded = wire::check(call.request, &bytes).map_err(super::status::refused)?;
        // tonic copies it once more.
        if !room.resize(2 * bytes.len() + decoded) {
            return Err(refuse(Unreadable::OverBudget { limit: self.budget.limit() }));
        }
        let mut framed = Vec::with_capacity(bytes.len() + 5);
        framed.push(0);
        framed.extend((bytes.len() as u32).to_be_bytes());
        framed.extend_from_slice(&bytes);
        Ok((Body::new(Full::new(bytes::Bytes::from(framed))), Some(room)))
    }

    /// Serves a stream of batches.
    fn stream(
        &self,
        call: &'static Call,
        peer: &Peer,
        call_room: Reservation,
        body: Body,
        service: &Service,
    ) -> Response<Body> {
        let limit = self.budget.limit();
        let arrived = self.messages(call, peer, body).map(move |message| {
            // Held for as long as the stream.
            let _ = &call_room;
            received(message.map_err(Unread::Bytes)?, call, limit)
        });
        let arrived: Arrived = arrived.boxed();
        let encoder = ProstCodec::<IngestResponse, IngestRequest>::raw_encoder(BufferSettings::default());
        let answers = service.serve_ingest(arrived);
        let body = EncodeBody::new_server(encoder, answers, None, SingleMessageCompressionOverride::default(), None);
        let mut response = Response::new(Body::new(body));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        response
    }
}

/// Decodes a message of a stream of batches. One that has too many elements is decoded without them.
fn received(message: Message, call: &Call, limit: usize) -> Result<Received, Unread> {
    let Message { bytes, mut room } = message;
    let over_budget = || Unread::Bytes(Unreadable::OverBudget { limit });
    let fault = match wire::check(call.request, &bytes) {
        Ok(decoded) => {
            if !room.resize(bytes.len() + decoded) {
                return Err(over_budget());
            }
            let request = IngestRequest::decode(bytes).map_err(Unread::malformed)?;
            return Ok(Received { request, fault: None, room });
        }
        Err(fault) => fault,
    };
    // Twice its texts, as bytes and decoded.
    if !room.resize(3 * bytes.len()) {
        return Err(over_budget());
    }
    let header = wire::without_rows(&bytes).and_then(|header| BatchChunk::decode(header.as_slice()).ok());
    let Some(header) = header else { return Err(Unread::Message(fault)) };
    let request = IngestRequest { message: Some(ingest_request::Message::Chunk(header)) };
    Ok(Received { request, fault: Some(fault), room })
}

/// The origin of a call: its connection, and the account of that connection.
#[derive(Clone)]
pub struct Caller {
    pub visit: Arc<Visit>,
    pub peer: Peer,
}

/// The connection of a call: its account, and its windows once it has made a call.
#[derive(Clone)]
pub struct Peer {
    account: Account,
    window: Window,
    reserved: Arc<OnceLock<Reservation>>,
}

impl Peer {
    pub fn new(budget: &Budget, window: Window) -> Self {
        Self { account: budget.account(), window, reserved: Arc::default() }
    }

    /// Reserves what a call takes, and on the first one what the connection may send unread.
    fn open(&self) -> Option<Reservation> {
        if self.reserved.get().is_none() {
            // Two first calls at once: one of the reservations is dropped.
            let _ = self.reserved.set(self.account.reserve(self.window.bytes() as usize)?);
        }
        self.account.reserve(CALL)
    }
}

/// The body of an answer, with what its call has reserved.
struct Held {
    body: Body,
    _room: Reservation,
}

impl HttpBody for Held {
    type Data = bytes::Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<bytes::Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
