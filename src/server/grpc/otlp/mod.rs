//! Metrics as OTLP, and the calls that send them to a collector.

mod convert;

use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use tonic::transport::Channel;

use super::client::channel;
use crate::server::peers::{Dialer, Protocol, Remote, Trust};
use leakage::field_error::{FieldError, in_short};

pub use convert::{Source, requests};
pub use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;

/// The collector, and how often metrics are pushed to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpOptions {
    pub endpoint: Remote,
    pub interval: Duration,
}

impl OtlpOptions {
    /// Errors when the endpoint is `https` and this machine trusts no authorities; the fault names the option.
    pub fn check(&self) -> Result<(), FieldError> {
        self.dialer().map(drop)
    }

    pub fn dialer(&self) -> Result<Dialer, FieldError> {
        let dialer = Dialer::new(self.endpoint.clone(), &Trust::default(), Protocol::Http2);
        dialer.map_err(|fault| FieldError { field: "otlp_endpoint".into(), ..fault })
    }
}

/// A connection to a collector.
pub struct Collector(MetricsServiceClient<Channel>);

/// The points that a collector has rejected of a request that it took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rejected {
    pub points: u64,
    /// May be empty.
    pub why: String,
}

impl Collector {
    /// Errors in words.
    pub async fn connect(dialer: &Dialer) -> Result<Self, String> {
        let channel = channel(dialer).await.map_err(|error| error.to_string())?;
        Ok(Self(MetricsServiceClient::new(channel)))
    }

    /// Errors, in words, when the collector does not take the request.
    pub async fn export(&mut self, request: ExportMetricsServiceRequest) -> Result<Rejected, String> {
        let refused = |status: tonic::Status| format!("{:?}: {}", status.code(), in_short(status.message()));
        let answer = self.0.export(request).await.map_err(refused)?.into_inner();
        let partial = answer.partial_success.unwrap_or_default();
        let points = u64::try_from(partial.rejected_data_points).unwrap_or_default();
        Ok(Rejected { points, why: in_short(&partial.error_message) })
    }
}
