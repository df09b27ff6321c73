//! Connections whose packets carry a traffic class, from the handshake on.
//!
//! The client that `object_store` makes otherwise has no way to set it. This one follows no
//! redirects and asks no proxy.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use http::Uri;
use http_body_util::BodyExt;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use object_store::client::{
    HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse, HttpResponseBody,
    HttpService,
};
use tokio::net::{TcpSocket, TcpStream};
use tower_service::Service;

/// Time that a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);
/// Time for which an idle connection is kept.
const IDLE: Duration = Duration::from_secs(30);

/// A client that sets the differentiated services code point of its connections.
#[derive(Debug)]
pub(crate) struct Marked {
    client: Client<HttpsConnector<Dial>, HttpRequestBody>,
    /// Until the head of an answer is there.
    limit: Duration,
}

impl Marked {
    /// `dscp` is from 0 to 63; `limit` is what one attempt has.
    ///
    /// # Errors
    /// The system has no certificates to verify servers by.
    pub(crate) fn new(dscp: u8, limit: Duration) -> Result<Self, HttpError> {
        let dial = Dial {
            dscp,
            limit: CONNECT.min(limit),
        };
        let secure = HttpsConnectorBuilder::new()
            .try_with_platform_verifier()
            .map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        let dial = secure.https_or_http().enable_http1().wrap_connector(dial);
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_timer(TokioTimer::new())
            .build(dial);
        Ok(Self { client, limit })
    }
}

#[async_trait]
impl HttpService for Marked {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let answer = tokio::time::timeout(self.limit, self.client.request(request));
        let answer = match answer.await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) if error.is_connect() => {
                return Err(HttpError::new(HttpErrorKind::Connect, error));
            }
            Ok(Err(error)) => return Err(HttpError::new(HttpErrorKind::Request, error)),
            Err(late) => return Err(HttpError::new(HttpErrorKind::Timeout, late)),
        };
        let broken = |error| HttpError::new(HttpErrorKind::Interrupted, error);
        Ok(answer.map(|body| HttpResponseBody::new(body.map_err(broken))))
    }
}

/// Makes the connections.
#[derive(Clone, Copy, Debug)]
struct Dial {
    dscp: u8,
    limit: Duration,
}

impl Service<Uri> for Dial {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let dial = *self;
        Box::pin(async move {
            let made = tokio::time::timeout(dial.limit, dial.connect(&to)).await;
            made.map_err(|_| io::ErrorKind::TimedOut)?.map(TokioIo::new)
        })
    }
}

impl Dial {
    /// Connects to the first address that answers.
    async fn connect(self, to: &Uri) -> io::Result<TcpStream> {
        let host = to.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let is_secure = to.scheme() == Some(&http::uri::Scheme::HTTPS);
        let port = to.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in tokio::net::lookup_host((host, port)).await? {
            match self.socket(address)?.connect(address).await {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn socket(self, address: SocketAddr) -> io::Result<TcpSocket> {
        // The code point is the upper six bits of the byte; the lower two are the network's. Set
        // before the handshake: a server that reflects the class takes it from there.
        let class = u32::from(self.dscp) << 2;
        match address {
            SocketAddr::V4(_) => {
                let socket = TcpSocket::new_v4()?;
                socket.set_tos_v4(class)?;
                Ok(socket)
            }
            SocketAddr::V6(_) => {
                let socket = TcpSocket::new_v6()?;
                socket.set_tclass_v6(class)?;
                Ok(socket)
            }
        }
    }
}
