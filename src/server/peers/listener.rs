//! A bound port: TCP, or a Unix socket in a directory that no one else can change.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};

use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};
use tokio_util::either::Either;

use super::address::Endpoint;

/// Connections that may wait to be accepted. Of those beyond, the system drops the first packet, which is sent again after a
/// second.
const WAITING: u32 = 4096;

/// A connection as the system gives it.
pub type Socket = Either<TcpStream, UnixStream>;

/// A bound port. The caller of the server owns it, so it knows the address.
pub struct Listener {
    bound: Bound,
    local: Endpoint,
}

enum Bound {
    Tcp(TcpListener),
    Unix { listener: UnixListener, _file: SocketFile },
}

/// The peer of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    Tcp(SocketAddr),
    /// The user of the process at the other end of a Unix socket; `None` if the system does not tell.
    Unix(Option<u32>),
}

impl Peer {
    /// Whether it is a process of this user or of root.
    pub fn is_own(&self) -> bool {
        matches!(self, Self::Unix(Some(user)) if *user == 0 || *user == own_user())
    }
}

impl std::fmt::Display for Peer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => write!(formatter, "{}", address.ip()),
            Self::Unix(Some(user)) => write!(formatter, "user {user}"),
            Self::Unix(None) => formatter.write_str("an unknown user"),
        }
    }
}

impl Listener {
    /// Opens a port. A socket's directory is created if only it is missing; a file left by a sidecar that no longer runs
    /// is replaced.
    pub async fn bind(endpoint: &Endpoint) -> io::Result<Self> {
        let path = match endpoint {
            Endpoint::Tcp(address) => return bind_address(*address)?.try_into(),
            Endpoint::Unix(path) => path,
        };
        let (listener, file) = bind_socket(path)?;
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        Ok(Self { bound: Bound::Unix { listener, _file: file }, local: endpoint.clone() })
    }

    /// Where it listens.
    pub fn local(&self) -> &Endpoint {
        &self.local
    }

    /// Returns the next connection.
    pub async fn accept(&self) -> io::Result<(Socket, Peer)> {
        match &self.bound {
            Bound::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                // Sends small messages without delay.
                let _ = stream.set_nodelay(true);
                Ok((Either::Left(stream), Peer::Tcp(address)))
            }
            Bound::Unix { listener, .. } => {
                let (stream, _) = listener.accept().await?;
                let user = stream.peer_cred().ok().map(|credentials| credentials.uid());
                Ok((Either::Right(stream), Peer::Unix(user)))
            }
        }
    }
}

impl TryFrom<TcpListener> for Listener {
    type Error = io::Error;

    fn try_from(listener: TcpListener) -> io::Result<Self> {
        let local = Endpoint::Tcp(listener.local_addr()?);
        Ok(Self { bound: Bound::Tcp(listener), local })
    }
}

fn bind_address(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A port can be opened again while connections of the process before are still closing.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(WAITING)
}

/// The file of a socket, removed when the port closes unless another process has replaced it.
struct SocketFile {
    path: PathBuf,
    inode: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let own = |metadata: &std::fs::Metadata| (metadata.dev(), metadata.ino()) == self.inode;
        if std::fs::symlink_metadata(&self.path).is_ok_and(|metadata| own(&metadata)) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn bind_socket(path: &Path) -> io::Result<(std::os::unix::net::UnixListener, SocketFile)> {
    let directory = path.parent().ok_or_else(|| io::Error::other("it has no directory"))?;
    match std::fs::DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    check_directory(directory)?;
    // Two sidecars that start at once must not both find the file stale.
    let lock = File::open(directory)?;
    lock.lock()?;
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(io::Error::other("a file that is no socket stands there"));
        }
        Ok(_) => match StdUnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path)?,
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            _ => return Err(io::Error::new(io::ErrorKind::AddrInUse, "a process listens there: it is in use")),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let listener = std::os::unix::net::UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    let metadata = std::fs::symlink_metadata(path)?;
    Ok((listener, SocketFile { path: path.to_owned(), inode: (metadata.dev(), metadata.ino()) }))
}

/// Errors unless only this user and root can change what the directory holds, and where its path leads.
fn check_directory(directory: &Path) -> io::Result<()> {
    let directory = directory.canonicalize()?;
    for (depth, place) in directory.ancestors().enumerate() {
        let metadata = std::fs::metadata(place)?;
        let fault = |why: &str| {
            let message =
                format!("its directory {} {why}, expected one that only this user can change", place.display());
            Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
        };
        if metadata.uid() != own_user() && metadata.uid() != 0 {
            return fault(&format!("belongs to user {}", metadata.uid()));
        }
        // In a sticky directory, such as /tmp, others cannot rename a directory of this user.
        let sticky = depth > 0 && metadata.mode() & 0o1000 != 0;
        if metadata.mode() & 0o022 != 0 && !sticky {
            return fault(&format!("can be written by others (mode {:04o})", metadata.mode() & 0o7777));
        }
    }
    Ok(())
}

/// The user that this process acts as.
pub fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(path: PathBuf) -> Endpoint {
        Endpoint::Unix(path)
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().mode() & 0o777
    }

    async fn fault(path: PathBuf) -> String {
        Listener::bind(&at(path)).await.err().expect("a fault").to_string()
    }

    #[tokio::test]
    async fn a_socket_and_its_directory_are_this_users_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/x.sock");
        let listener = Listener::bind(&at(path.clone())).await.unwrap();
        assert_eq!((mode(path.parent().unwrap()), mode(&path)), (0o700, 0o600));
        let (client, accepted) = tokio::join!(UnixStream::connect(&path), listener.accept());
        let (_, peer) = accepted.unwrap();
        assert!(client.is_ok() && peer.is_own() && peer == Peer::Unix(Some(own_user())));
        assert!(!Peer::Unix(Some(own_user() + 1)).is_own() && !Peer::Unix(None).is_own());
        drop(listener);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn only_a_socket_that_no_process_listens_on_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let first = Listener::bind(&at(path.clone())).await.unwrap();
        assert!(fault(path.clone()).await.contains("in use"));
        // A file that another process has put there stays.
        std::fs::rename(&path, directory.path().join("y")).unwrap();
        std::fs::write(&path, "").unwrap();
        drop(first);
        assert!(path.exists());
        assert!(fault(path.clone()).await.contains("no socket"));
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert!(fault(path).await.contains("no socket"));
    }

    #[tokio::test]
    async fn a_directory_that_others_can_write_to_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let open = directory.path().join("open");
        std::fs::create_dir(&open).unwrap();
        for mode in [0o777, 0o1777, 0o770, 0o702] {
            std::fs::set_permissions(&open, std::fs::Permissions::from_mode(mode)).unwrap();
            let said = fault(open.join("x.sock")).await;
            assert!(said.contains("can be written by others") && said.contains("open"), "{said}");
        }
        let below = open.join("below");
        std::fs::create_dir(&below).unwrap();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(fault(below.join("x.sock")).await.contains("can be written by others"));
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o1777)).unwrap();
        assert!(Listener::bind(&at(below.join("x.sock"))).await.is_ok());
        assert!(fault("/".repeat(200).into()).await.len() > 10);
        assert!(fault(below.join("x".repeat(200))).await.contains("path"));
    }
}
