//! Peers: where ports listen, who connects, and how long a connection may take.
//!
//! Both ports, and the clients among the commands, share this. [`Connections`] serves what connects to a port.

mod address;
mod connections;
mod dial;
mod files;
mod listener;
mod private;
mod tls;
mod token;
mod write_deadline;

pub use address::{Endpoint, Remote, without_user};
pub use connections::{Caller, Connections, Counts};
pub use dial::{Dialer, Stream, Trust};
pub use files::{fitting, raise_file_limit};
pub use listener::{Listener, Peer, own_user};
pub use private::{check_private, read_token};
pub use tls::{ClientCertificate, Protocol, Tls, TlsFiles};
pub use token::{is_same, presented};
