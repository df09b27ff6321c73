//! Follows the members of a job that come and go while the daemon runs.

use std::io;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use forebay_dataset::Member;

use crate::daemon::Node;
use crate::peers::Roster;
use crate::settings::parse_member;

/// How often is looked who is there.
const LOOK: Duration = Duration::from_secs(1);
/// How soon somebody unknown makes it look again.
const STIR: Duration = Duration::from_millis(100);

/// Knows which nodes a job has at any time.
pub trait Roll: Send {
    /// The daemons that are there now, `HOST:PORT` or `HOST:PORT*WEIGHT` each.
    ///
    /// # Errors
    /// Why it is not known; the members stay as they were.
    fn members(&mut self) -> Result<Vec<String>, String>;
}

/// Starts the thread that looks. It ends soon after the node.
pub(crate) fn start(node: &Arc<Node>, roster: &Arc<Roster>, roll: Box<dyn Roll>) -> io::Result<()> {
    let (node, roster) = (Arc::downgrade(node), roster.clone());
    std::thread::Builder::new()
        .name("follow".into())
        .spawn(move || follow(&node, &roster, roll))?;
    Ok(())
}

fn follow(node: &Weak<Node>, roster: &Roster, mut roll: Box<dyn Roll>) {
    let runs = || node.upgrade().is_some_and(|node| !node.is_stopping());
    let mut looked = Instant::now();
    while runs() {
        std::thread::sleep(STIR);
        if looked.elapsed() < LOOK && !roster.was_stirred() {
            continue;
        }
        let found = roll.members();
        looked = Instant::now();
        // A place that cannot be read says nothing of who is gone.
        let Ok(found) = found else { continue };
        let members = found.iter().filter_map(|text| parse_member(text));
        let members: Vec<Member> = members.collect();
        // Nor does one in which this node is missing, until it has its place there again: it may have
        // stood still, or the place been lost as a whole.
        let me = roster.now();
        if !members.iter().any(|member| member.name == me.name()) {
            continue;
        }
        match roster.change(members) {
            Ok(false) => {}
            Ok(true) => {
                let names: Vec<_> = (roster.now().members().iter())
                    .map(|member| member.name.clone())
                    .collect();
                eprintln!("members are now {}", names.join(", "));
            }
            Err(error) => eprintln!("cannot go over to the members that came: {error}"),
        }
    }
}
