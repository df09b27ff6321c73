//! Sockets as links want them.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use rustix::net::sockopt;

use crate::LinkError;

/// How the sockets of links are set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketPlan {
    /// Differentiated services code point of every packet, 0 to 63; `None` leaves the system's.
    pub dscp: Option<u8>,
    /// Whether links are encrypted. One is if either of its sides wants it.
    pub encrypts: bool,
}

impl SocketPlan {
    /// Sets a connected socket. `silence` bounds what the kernel waits for an acknowledgement.
    pub(crate) fn apply(self, stream: &TcpStream, silence: Duration) -> io::Result<()> {
        stream.set_nodelay(true)?;
        sockopt::set_socket_keepalive(stream, true)?;
        let millis = u32::try_from(silence.as_millis()).unwrap_or(u32::MAX);
        sockopt::set_tcp_user_timeout(stream, millis.saturating_mul(4))?;
        if let Some(dscp) = self.dscp {
            // The code point is the upper six bits of the byte; the lower two are the network's.
            let class = dscp << 2;
            match stream.local_addr()? {
                SocketAddr::V4(_) => sockopt::set_ip_tos(stream, class)?,
                SocketAddr::V6(_) => sockopt::set_ipv6_tclass(stream, class.into())?,
            }
        }
        Ok(())
    }
}

/// Connects to the first address of `HOST:PORT` that answers by `deadline`.
pub(crate) fn connect(address: &str, deadline: Instant) -> Result<TcpStream, LinkError> {
    let failed = |source| LinkError::Connect {
        address: address.to_owned(),
        source,
    };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for candidate in address.to_socket_addrs().map_err(failed)? {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(failed(io::ErrorKind::TimedOut.into()));
        }
        match TcpStream::connect_timeout(&candidate, left) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(failed(last))
}

/// The socket that peers dial.
#[derive(Debug)]
pub struct Listening(TcpListener);

impl Listening {
    /// Listens on the first address of `HOST:PORT` that can be had.
    ///
    /// # Errors
    /// The system's, if there is none.
    pub fn on(address: &str) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self(listener))
    }

    /// The next that dials, if one comes within `limit`.
    ///
    /// # Errors
    /// The system's.
    pub fn next(&self, limit: Duration) -> io::Result<Option<TcpStream>> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let limit = Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: i64::from(limit.subsec_nanos()),
        };
        let mut ready = [PollFd::new(&self.0, PollFlags::IN)];
        match poll(&mut ready, Some(&limit)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        match self.0.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                Ok(Some(stream))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system's.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_carry_the_class() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            // A machine without IPv6 has nothing to set.
            let Ok(listening) = TcpListener::bind(host) else {
                continue;
            };
            let stream = TcpStream::connect(listening.local_addr().unwrap()).unwrap();
            let plan = SocketPlan {
                dscp: Some(10),
                ..SocketPlan::default()
            };
            plan.apply(&stream, Duration::from_secs(1)).unwrap();
            let class = match stream.local_addr().unwrap() {
                SocketAddr::V4(_) => u32::from(sockopt::ip_tos(&stream).unwrap()),
                SocketAddr::V6(_) => sockopt::ipv6_tclass(&stream).unwrap(),
            };
            assert_eq!(class, 40, "{host}");
        }
    }
}
