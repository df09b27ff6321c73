//! Addresses at which other nodes would reach this one, and the traffic class of what is sent.

use std::io;
use std::net::{IpAddr, TcpListener, ToSocketAddrs};
use std::time::Duration;

use rustix::net::sockopt;

use crate::doctor::item::Item;
use crate::doctor::{variable, within};
use crate::members;

const LIMIT: Duration = Duration::from_secs(10);
/// Code point that is tried where none is set: that of bulk data with low drop priority.
const BULK: u8 = 10;

pub(super) fn items() -> Vec<Item> {
    let mut items = vec![addresses(), port()];
    items.extend(["127.0.0.1:0", "[::1]:0"].into_iter().filter_map(class));
    items
}

fn addresses() -> Item {
    let name = "address of this node";
    let host = members::host_name();
    let way = "name an address that the others can reach with --host";
    let asked = host.clone();
    let found = within(LIMIT, move || -> io::Result<Vec<IpAddr>> {
        let found = (asked.as_str(), 0).to_socket_addrs()?;
        let mut found: Vec<IpAddr> = found.map(|address| address.ip()).collect();
        found.dedup();
        Ok(found)
    });
    let refused = |why: String| Item::refused(name, why).way_out(way);
    match found {
        None => refused(format!(
            "the name of the host, `{host}`, is not looked up in time"
        )),
        Some(Err(error)) => refused(format!("the name of the host, `{host}`, has none: {error}")),
        Some(Ok(found)) => {
            let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
            let words = format!("`{host}` is {}", shown.join(", "));
            if found.iter().all(IpAddr::is_loopback) {
                refused(format!("{words}, which only this machine reaches"))
            } else if let Err(error) = TcpListener::bind((found[0], 0)) {
                refused(format!("{words}, where it cannot listen: {error}"))
            } else {
                Item::ok(name, words)
            }
        }
    }
}

fn port() -> Item {
    let port = members::PORT;
    match TcpListener::bind(("0.0.0.0", port)) {
        Ok(_) => Item::ok("port of daemons", format!("{port} is free")),
        Err(error) => Item::refused("port of daemons", format!("{port}: {error}"))
            .way_out("fine if a daemon of yours has it; else choose another with --port"),
    }
}

/// Whether packets can be given a traffic class; `None` for a family that this machine has not.
fn class(host: &str) -> Option<Item> {
    let listener = TcpListener::bind(host).ok()?;
    let four = listener.local_addr().ok()?.is_ipv4();
    let name = if four {
        "traffic class, IPv4"
    } else {
        "traffic class, IPv6"
    };
    let set = variable("FOREBAY_DSCP").and_then(|set| set.parse().ok());
    let point: u8 = set.filter(|point| *point < 64).unwrap_or(BULK);
    let class = point << 2;
    let tried = if four {
        sockopt::set_ip_tos(&listener, class).and_then(|()| sockopt::ip_tos(&listener))
    } else {
        let set = sockopt::set_ipv6_tclass(&listener, class.into());
        set.and_then(|()| Ok(sockopt::ipv6_tclass(&listener)? as u8))
    };
    let way = "staging works without one, in the class of all else";
    Some(match tried {
        Ok(set) if set == class => Item::ok(name, format!("code point {point} can be set")),
        Ok(_) => Item::refused(name, format!("code point {point} is not kept")).way_out(way),
        Err(error) => Item::refused(name, format!("code point {point}: {error}")).way_out(way),
    })
}
