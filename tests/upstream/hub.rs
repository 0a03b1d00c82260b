//! A hub in this process that keeps what it is told, and can misbehave.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use conceptwatch::server::hub_protocol::proto::entry::Change;
use conceptwatch::server::hub_protocol::proto::hub_server::{Hub, HubServer};
use conceptwatch::server::hub_protocol::proto::{self as hub, Entry, PushRequest, PushResponse, Refused};
use prost::Message;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

/// What a hub does with a push.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Manner {
    #[default]
    Applies,
    /// Never answers.
    Hangs,
    /// Applies, and then the connection seems to break: the answer is lost.
    LosesAnswers,
    /// Refuses points of this step for ever.
    RefusesStep(u64),
    /// Takes requests of so many entries.
    TakesEntries(usize),
    /// Takes points without matrices only.
    TakesNoMatrices,
}

/// What all hubs of a database have been told.
#[derive(Default)]
pub struct Told {
    pub manner: Manner,
    /// If set, calls need it.
    pub token: Option<String>,
    pub calls: u64,
    /// By source, as in the database.
    applied: BTreeMap<String, u64>,
    /// In the order in which they were applied.
    changes: Vec<(String, Entry)>,
}

impl Told {
    pub fn sources(&self) -> Vec<String> {
        self.applied.keys().cloned().collect()
    }

    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter_map(|(_, entry)| entry.change.as_ref())
    }

    pub fn points(&self) -> impl Iterator<Item = &hub::Point> {
        self.changes().filter_map(|change| match change {
            Change::Point(point) => Some(point),
            _ => None,
        })
    }

    /// How often the same point of each step of `val` was told: a point whose slow scores join it later is another one.
    pub fn steps(&self) -> BTreeMap<u64, usize> {
        let mut points: BTreeMap<(u64, Vec<u8>), usize> = BTreeMap::new();
        for point in self.points() {
            *points.entry((point.point.as_ref().unwrap().step, point.encode_to_vec())).or_default() += 1;
        }
        let mut steps = BTreeMap::new();
        for ((step, _), times) in points {
            let most = steps.entry(step).or_default();
            *most = times.max(*most);
        }
        steps
    }

    /// As if the database were replaced by what it was when the source had `applied` entries.
    pub fn claim(&mut self, applied: u64) {
        self.applied.values_mut().for_each(|known| *known = applied);
    }

    fn apply(&mut self, request: PushRequest) -> Result<PushResponse, Status> {
        let numbers: Vec<u64> = request.entries.iter().map(|entry| entry.number).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "ascending: {numbers:?}");
        match &self.manner {
            Manner::TakesEntries(most) if numbers.len() > *most => {
                return Err(Status::invalid_argument(format!(
                    "entries: got {}, expected at most {most}",
                    numbers.len()
                )));
            }
            Manner::TakesNoMatrices if request.entries.iter().any(has_matrices) => {
                return Err(Status::invalid_argument("push: got a larger message, expected at most 9 bytes"));
            }
            _ => {}
        }
        let applied = self.applied.entry(request.source.clone()).or_default();
        let mut refused = Vec::new();
        for entry in request.entries {
            if entry.number <= *applied {
                continue;
            }
            *applied = entry.number;
            let step = match &entry.change {
                Some(Change::Point(point)) => point.point.as_ref().map(|point| point.step),
                _ => None,
            };
            match self.manner {
                Manner::RefusesStep(one) if step == Some(one) => refused.push(Refused {
                    number: entry.number,
                    field: "point.step".into(),
                    message: format!("got {one}, expected another"),
                }),
                _ => self.changes.push((request.source.clone(), entry)),
            }
        }
        Ok(PushResponse { applied: *applied, refused })
    }
}

fn has_matrices(entry: &Entry) -> bool {
    matches!(&entry.change, Some(Change::Point(point)) if !point.matrices.is_empty())
}

/// A hub that listens, in a runtime of its own, so that it can end with all its connections.
pub struct FakeHub {
    pub address: SocketAddr,
    runtime: Option<Runtime>,
}

impl FakeHub {
    pub fn start(told: &Arc<Mutex<Told>>) -> Self {
        Self::at("127.0.0.1:0".parse().unwrap(), told)
    }

    pub fn at(address: SocketAddr, told: &Arc<Mutex<Told>>) -> Self {
        let listener = std::net::TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let service = HubServer::new(Service(Arc::clone(told))).max_decoding_message_size(16 << 20);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.spawn(async move {
            let incoming = TcpListenerStream::new(TcpListener::from_std(listener).unwrap());
            Server::builder().add_service(service).serve_with_incoming(incoming).await.unwrap();
        });
        Self { address, runtime: Some(runtime) }
    }

    /// Breaks every connection off, and listens no more.
    pub fn vanish(mut self) -> SocketAddr {
        self.end();
        self.address
    }

    fn end(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for FakeHub {
    fn drop(&mut self) {
        self.end();
    }
}

struct Service(Arc<Mutex<Told>>);

#[tonic::async_trait]
impl Hub for Service {
    async fn push(&self, request: Request<PushRequest>) -> Result<Response<PushResponse>, Status> {
        let given = request.metadata().get("authorization").map(|value| value.to_str().unwrap().to_owned());
        let request = request.into_inner();
        let (hangs, answer) = {
            let mut told = self.0.lock().unwrap();
            told.calls += 1;
            if told.token.as_ref().is_some_and(|token| given != Some(format!("Bearer {token}"))) {
                return Err(Status::unauthenticated("got a wrong token"));
            }
            if told.manner == Manner::Hangs {
                (true, Ok(PushResponse::default()))
            } else {
                (false, told.apply(request))
            }
        };
        if hangs {
            std::future::pending::<()>().await;
        }
        if self.0.lock().unwrap().manner == Manner::LosesAnswers {
            return Err(Status::unavailable("the connection broke off"));
        }
        answer.map(Response::new)
    }
}
