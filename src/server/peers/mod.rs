//! Peers and strangers: where ports listen, who connects, and what a connection may hold before it has proved anything.
//!
//! Both ports, and the clients among the commands, share this. [`Gate`] accepts connections; a connection that says
//! nothing makes room for one that does.

mod address;
mod attempts;
mod connection_limit;
mod dial;
mod files;
mod listener;
mod private;
mod proof;
mod tls;

pub use address::{Endpoint, Remote};
pub use attempts::Attempts;
pub use connection_limit::{Connection, Counts, Gate, Held, Patience, Visit};
pub use dial::{Dialer, Stream, Trust};
pub use files::{fitting, raise_file_limit};
pub use listener::{Listener, Peer, own_user};
pub use private::{check_private, read_token};
pub use proof::{Secret, same_secret, with_scheme};
pub use tls::{ClientCertificate, Protocol, Tls, TlsFiles};
