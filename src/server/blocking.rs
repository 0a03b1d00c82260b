//! Blocking calls at the start of a server, away from the threads of the runtime.

use super::options::ServeError;

/// The result of a call that blocks. Errors when it does, or when it panics.
pub async fn blocking<T, E>(call: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T, ServeError>
where
    T: Send + 'static,
    E: Send + 'static,
    ServeError: From<E>,
{
    Ok(tokio::task::spawn_blocking(call).await.map_err(std::io::Error::other)??)
}
