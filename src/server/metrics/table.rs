//! Metrics declared as a table.

use prometheus::core::Collector;
use prometheus::{Error, Registry};

/// Declares handles to metrics, each with its labels or bounds, name and help, and the function that registers them.
macro_rules! table {
    (@new Histogram, $opts:expr, $bounds:expr) => {
        prometheus::Histogram::with_opts(prometheus::HistogramOpts::from($opts).buckets($bounds.to_vec()))
    };
    (@new $kind:ident, $opts:expr) => { prometheus::$kind::with_opts($opts) };
    (@new $kind:ident, $opts:expr, $($label:tt)+) => { prometheus::$kind::new($opts, &[$($label)+]) };
    ($(#[$about:meta])* $table:ident {
        $($(#[$of:meta])* $field:ident: $kind:ident $([$($with:tt)+])? = $name:expr, $help:expr;)+
    }) => {
        $(#[$about])*
        pub struct $table { $($(#[$of])* pub $field: prometheus::$kind,)+ }

        impl $table {
            /// Errors when the registry already has one of the names.
            pub fn register(registry: &prometheus::Registry) -> Result<Self, prometheus::Error> {
                use $crate::server::metrics::table::{registered, table};
                Ok(Self {$(
                    $field: registered(
                        registry,
                        table!(@new $kind, prometheus::Opts::new($name, $help) $(, $($with)+)?),
                    )?,
                )+})
            }
        }
    };
}
pub(super) use table;

pub(super) fn registered<C: Collector + Clone + 'static>(
    registry: &Registry,
    metric: Result<C, Error>,
) -> Result<C, Error> {
    let metric = metric?;
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}
