//! The members as they are now.
//!
//! Each list of members is a [`Peers`] that never changes; another list is another [`Peers`], with
//! the links to those who stay. Whoever began to ask with one list ends with it, so a position in a
//! list always means the same member.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use forebay_cache::Ownership;
use forebay_dataset::{Member, Region};
use forebay_transport::{Caller, CallerPlan, Fabric, Secret};

use super::{Peers, Shared, Way, hello, lock, open_fabric, secret};
use crate::clock::Clock;
use crate::settings::PeersPlan;

/// Makes a way to the member of a name.
pub(crate) type Dial = dyn Fn(&PeersPlan, &str) -> io::Result<Box<dyn Way>> + Send + Sync;

/// Who the members are now.
pub(crate) struct Roster {
    now: Mutex<Arc<Peers>>,
    dial: Box<Dial>,
    /// Someone came who is not on the list.
    stirred: AtomicBool,
}

impl Roster {
    /// Reads the secret and begins to dial all members.
    pub(crate) fn start(plan: PeersPlan) -> io::Result<Arc<Self>> {
        let secret = secret(&plan)?;
        let fabric = open_fabric(&plan)?;
        let (key, lends) = (secret.clone(), fabric.as_ref().ok().cloned());
        let dial = move |plan: &PeersPlan, name: &str| {
            let caller = Caller::start(CallerPlan {
                address: name.to_owned(),
                hello: hello(plan, name),
                secret: key.clone(),
                socket: plan.socket,
                silence: plan.silence,
                fabric: lends.clone(),
            })?;
            Ok(Box::new(caller) as Box<dyn Way>)
        };
        Self::over(plan, secret, fabric, Box::new(dial), Clock::default())
    }

    /// Members that are reached by what `dial` makes.
    pub(crate) fn over(
        plan: PeersPlan,
        secret: Secret,
        fabric: Result<Arc<Fabric>, Option<String>>,
        dial: Box<Dial>,
        clock: Clock,
    ) -> io::Result<Arc<Self>> {
        let shared = Arc::new(Shared::new(secret, clock, fabric));
        let peers = Peers::new(plan, shared, None, &*dial)?;
        Ok(Arc::new(Self {
            now: Mutex::new(Arc::new(peers)),
            dial,
            stirred: AtomicBool::new(false),
        }))
    }

    /// The list that holds now.
    pub(crate) fn now(&self) -> Arc<Peers> {
        lock(&self.now).clone()
    }

    /// Goes over to another list, to which this node belongs in any case. False if it is the same.
    ///
    /// # Errors
    /// The system's, if no thread can be had for a new member's link; the list stays as it was.
    pub(crate) fn change(&self, members: Vec<Member>) -> io::Result<bool> {
        let now = self.now();
        let plan = now.plan.with_members(members);
        let names = |plan: &PeersPlan| -> BTreeSet<(String, u32)> {
            let each = plan.members.iter();
            each.map(|member| (member.name.clone(), member.weight.get()))
                .collect()
        };
        if names(&plan) == names(&now.plan) {
            return Ok(false);
        }
        let next = Peers::new(plan, now.shared.clone(), Some(&now), &*self.dial)?;
        // Where nothing is placed yet, all is this node's own: no request is to find it so.
        let served: Vec<_> = lock(&now.shared.served).values().cloned().collect();
        for open in &served {
            next.placement(open.dataset.index());
        }
        let before = std::mem::replace(&mut *lock(&self.now), Arc::new(next));
        // Not under the lock: links that nobody needs any more end with it.
        drop(before);
        Ok(true)
    }

    /// Has whoever follows the list look at once.
    pub(crate) fn stir(&self) {
        self.stirred.store(true, Ordering::Relaxed);
    }

    /// True once for each time that somebody unknown came.
    pub(crate) fn was_stirred(&self) -> bool {
        self.stirred.swap(false, Ordering::Relaxed)
    }
}

impl std::fmt::Debug for Roster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Roster").finish_non_exhaustive()
    }
}

impl Ownership for Roster {
    fn owns(&self, generation: u128, region: Region) -> bool {
        self.now().owns(generation, region)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    use forebay_dataset::{Placement, ShardIndex};
    use forebay_transport::{Arrivals, Ended, LinkState, SocketPlan};
    use forebay_wire::Ask;

    use super::*;
    use crate::peers::Asking;
    use crate::settings::Transport;
    use crate::testing::World;

    /// A way that says when it is given up.
    struct Told(String, mpsc::Sender<String>);

    impl Drop for Told {
        fn drop(&mut self) {
            let _ = self.1.send(format!("-{}", self.0));
        }
    }

    impl Way for Told {
        fn call(
            &self,
            _: Box<dyn FnOnce(u64) -> Ask + '_>,
            _: Option<Arc<dyn Arrivals>>,
            _: &mpsc::Sender<Ended>,
        ) -> Option<Asking> {
            None
        }

        fn state(&self) -> LinkState {
            LinkState::Up
        }

        fn wait_for_first(&self, _: Instant) -> bool {
            true
        }

        fn wait_until_up(&self, _: Instant) -> bool {
            true
        }

        fn links(&self) -> u64 {
            1
        }

        fn received_bytes(&self) -> u64 {
            0
        }

        fn in_flight(&self) -> usize {
            0
        }
    }

    fn members(names: &[&str]) -> Vec<Member> {
        names.iter().map(|name| Member::new(*name)).collect()
    }

    /// A roster of `a`, `b` and `c` on node `b`, and what becomes of its ways.
    fn roster() -> (Arc<Roster>, mpsc::Receiver<String>) {
        let (tell, told) = mpsc::channel();
        let plan = PeersPlan {
            members: members(&["a", "b", "c"]),
            me: 1,
            follows: true,
            secret_file: None,
            names: None,
            exports: Vec::new(),
            socket: SocketPlan::default(),
            transport: Transport::Tcp,
            silence: Duration::from_secs(1),
        };
        let tell = Mutex::new(tell);
        let dial = move |_: &PeersPlan, name: &str| {
            let tell = lock(&tell).clone();
            let _ = tell.send(format!("+{name}"));
            Ok(Box::new(Told(name.to_owned(), tell)) as Box<dyn Way>)
        };
        let secret = Secret::from_text("a secret of this test").unwrap();
        let roster = Roster::over(plan, secret, Err(None), Box::new(dial), Clock::default());
        (roster.unwrap(), told)
    }

    #[test]
    fn who_stays_keeps_its_way_and_who_began_with_a_list_ends_with_it() {
        let (roster, told) = roster();
        let said = || told.try_iter().collect::<Vec<_>>();
        assert_eq!(said(), ["+a", "+c"]);
        assert!(!roster.change(members(&["c", "b", "a"])).unwrap());
        let under_way = roster.now();
        let link = |name| {
            let now = roster.now();
            now.link(now.member(name).unwrap())
        };
        let (a, c) = (link("a"), link("c"));
        // This node is a member whether the list has it or not.
        assert!(roster.change(members(&["c", "d"])).unwrap());
        assert_eq!(said(), ["+d"], "the way to a is still in use");
        assert_eq!(under_way.members()[0].name, "a");
        assert!(under_way.is_up(0));
        let now = roster.now();
        assert_eq!((now.name(), now.members().len()), ("b", 3));
        assert_ne!(now.number(), under_way.number());
        assert_eq!((link("c"), now.member("a")), (c, None));
        drop((under_way, now));
        assert_eq!(said(), ["-a"]);
        assert!(roster.change(members(&["a", "b"])).unwrap());
        assert_eq!(said(), ["+a", "-c", "-d"]);
        assert_ne!(link("a"), a, "another than was there before");
    }

    #[test]
    fn what_is_served_is_placed_before_another_list_holds() {
        let (roster, _told) = roster();
        let world = World::new(1 << 20);
        roster.now().offer(&world.open);
        let index = world.open.dataset.index();
        let shard = ShardIndex(0);
        let region = Region { shard, number: 0 };
        let mut of_others = 0;
        for number in 0..10 {
            let other = format!("d{number}");
            assert!(roster.change(members(&["a", "b", &other])).unwrap());
            let now = roster.now();
            let lens = [index.shard_len(shard).unwrap()];
            let placement = Placement::new(index.generation(), lens, now.members()).unwrap();
            let is_own = placement.owner(region) == Some(now.me());
            assert_eq!(roster.owns(index.generation(), region), is_own);
            of_others += u32::from(!is_own);
        }
        assert!(of_others > 0, "what was not placed would be its own");
    }

    #[test]
    fn where_members_come_and_go_whoever_has_the_secret_may_come() {
        let (roster, _told) = roster();
        let mut stranger = roster.now().hello("b");
        stranger.from = "z".to_owned();
        assert_eq!(roster.now().admits(&stranger), Ok(()));
        stranger.members ^= 1;
        assert!(
            roster.now().admits(&stranger).is_err(),
            "it has a list that stays"
        );
        assert!(!roster.was_stirred());
        roster.stir();
        assert!(roster.was_stirred() && !roster.was_stirred());
    }
}
