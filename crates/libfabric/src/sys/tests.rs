use std::mem::{offset_of, size_of};
use std::process::Command;

use super::attributes::*;
use super::objects::*;
use super::*;
use crate::{Label, TrafficClass};

/// `structure.field`, and where it lies by our layout.
macro_rules! fields {
    ($($ours:ty, $theirs:literal { $($field:ident $(as $name:literal)?),+ $(,)? })+) => {
        vec![$($(
            (
                concat!("struct ", $theirs),
                [$($name,)? stringify!($field)][0],
                offset_of!($ours, $field),
            ),
        )+)+]
    };
}

fn layout() -> Vec<(&'static str, &'static str, usize)> {
    fields! {
        Info, "fi_info" {
            next, caps, mode, addr_format, src_addrlen, dest_addrlen, src_addr, dest_addr, handle,
            tx_attr, rx_attr, ep_attr, domain_attr, fabric_attr, nic,
        }
        FabricAttr, "fi_fabric_attr" { fabric, name, prov_name, prov_version, api_version }
        DomainAttr, "fi_domain_attr" {
            domain, name, threading, control_progress, data_progress, resource_mgmt, av_type,
            mr_mode, mr_key_size, cq_data_size, cq_cnt, ep_cnt, tx_ctx_cnt, rx_ctx_cnt,
            max_ep_tx_ctx, max_ep_rx_ctx, max_ep_stx_ctx, max_ep_srx_ctx, cntr_cnt, mr_iov_limit,
            caps, mode, auth_key, auth_key_size, max_err_data, mr_cnt, tclass,
        }
        EpAttr, "fi_ep_attr" {
            kind as "type", protocol, protocol_version, max_msg_size, msg_prefix_size,
            max_order_raw_size, max_order_war_size, max_order_waw_size, mem_tag_format, tx_ctx_cnt,
            rx_ctx_cnt, auth_key_size, auth_key,
        }
        TxAttr, "fi_tx_attr" {
            caps, mode, op_flags, msg_order, comp_order, inject_size, size, iov_limit,
            rma_iov_limit, tclass,
        }
        RxAttr, "fi_rx_attr" {
            caps, mode, op_flags, msg_order, comp_order, total_buffered_recv, size, iov_limit,
        }
        Fid, "fid" { class as "fclass", context, ops }
        Ops, "fi_ops" { size, close, bind, control }
        objects::Fabric, "fid_fabric" { fid, ops }
        FabricOps, "fi_ops_fabric" { size, domain }
        Domain, "fid_domain" { fid, ops, mr }
        DomainOps, "fi_ops_domain" { size, av_open, cq_open, endpoint }
        MrOps, "fi_ops_mr" { size, reg }
        Mr, "fid_mr" { fid, descriptor as "mem_desc", key }
        AvAttr, "fi_av_attr" { kind as "type", rx_ctx_bits, count, ep_per_node, name, map_addr, flags }
        Av, "fid_av" { fid, ops }
        AvOps, "fi_ops_av" { size, insert }
        CqAttr, "fi_cq_attr" {
            size, flags, format, wait_obj, signaling_vector, wait_cond, wait_set,
        }
        CqEntry, "fi_cq_entry" { op_context }
        CqErrEntry, "fi_cq_err_entry" {
            op_context, flags, len, buf, data, tag, olen, err, prov_errno, err_data, err_data_size,
        }
        Cq, "fid_cq" { fid, ops }
        CqOps, "fi_ops_cq" { size, read, readfrom, readerr, sread }
        Ep, "fid_ep" { fid, ops, cm, msg, rma }
        CmOps, "fi_ops_cm" { size, setname, getname }
        RmaOps, "fi_ops_rma" { size, read }
    }
}

/// Numbers of the headers, and ours.
fn numbers() -> Vec<(&'static str, u64)> {
    let class = |label| u64::from(TrafficClass::Label(label).number());
    vec![
        ("FI_PROV_ATTR_ONLY", PROVIDERS_ONLY),
        ("FI_SOURCE", SOURCE),
        ("FI_CONTEXT", CONTEXT),
        ("FI_CONTEXT2", CONTEXT2),
        (
            "sizeof(struct fi_context2)",
            size_of::<end::Context>() as u64,
        ),
        ("FI_THREAD_DOMAIN", THREAD_DOMAIN.into()),
        ("FI_EP_RDM", Endpoint::RELIABLE_DATAGRAM.into()),
        (
            "(FI_MSG | FI_RMA | FI_READ | FI_REMOTE_READ)",
            Capabilities::REMOTE_READS,
        ),
        (
            "(FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT)",
            LINK_MEMORY.into(),
        ),
        ("FI_READ", end::READ),
        ("FI_REMOTE_READ", end::REMOTE_READ),
        ("FI_RECV", end::RECV),
        ("FI_TRANSMIT", end::TRANSMIT),
        ("FI_AV_TABLE", end::AV_TABLE.into()),
        ("FI_ENABLE", end::ENABLE as u64),
        ("FI_CQ_FORMAT_CONTEXT", end::CQ_CONTEXT.into()),
        ("FI_WAIT_NONE", end::WAIT_NONE.into()),
        ("FI_WAIT_UNSPEC", end::WAIT_UNSPEC.into()),
        ("FI_EAVAIL", end::ERROR_AVAILABLE as u64),
        ("FI_ETOOSMALL", end::TOO_SMALL as u64),
        ("FI_SOCKADDR", 1),
        ("FI_SOCKADDR_IN", 2),
        ("FI_SOCKADDR_IN6", 3),
        ("FI_TC_DSCP", TrafficClass::Dscp(0).number().into()),
        ("FI_TC_BEST_EFFORT", class(Label::BestEffort)),
        ("FI_TC_LOW_LATENCY", class(Label::LowLatency)),
        ("FI_TC_DEDICATED_ACCESS", class(Label::DedicatedAccess)),
        ("FI_TC_BULK_DATA", class(Label::BulkData)),
        ("FI_TC_SCAVENGER", class(Label::Scavenger)),
        ("FI_TC_NETWORK_CTRL", class(Label::NetworkControl)),
        // What we make for it must be as long as it reads, and what it makes for us as we read.
        ("sizeof(struct fi_cq_attr)", size_of::<CqAttr>() as u64),
        ("sizeof(struct fi_av_attr)", size_of::<AvAttr>() as u64),
        ("sizeof(struct fi_cq_entry)", size_of::<CqEntry>() as u64),
    ]
}

/// A C program that ends well only if the headers agree with us.
fn program() -> String {
    let numbers = numbers();
    let numbers = numbers
        .iter()
        .map(|(name, ours)| format!("{name} == {ours}ULL"));
    let mut checks: Vec<String> = numbers.collect();
    for (structure, field, offset) in layout() {
        checks.push(format!("offsetof({structure}, {field}) == {offset}"));
    }
    // Later versions append to these, so ours may only be the shorter.
    for (structure, size) in [
        ("fi_info", size_of::<Info>()),
        ("fi_fabric_attr", size_of::<FabricAttr>()),
        ("fi_domain_attr", size_of::<DomainAttr>()),
        ("fi_ep_attr", size_of::<EpAttr>()),
        ("fi_tx_attr", size_of::<TxAttr>()),
        ("fi_rx_attr", size_of::<RxAttr>()),
    ] {
        checks.push(format!("sizeof(struct {structure}) >= {size}"));
    }
    let checks = checks
        .iter()
        .map(|check| format!("_Static_assert({check}, \"\");\n"));
    let checks: String = checks.collect();
    let headers = "fabric fi_domain fi_endpoint fi_eq fi_cm fi_rma fi_errno".split(' ');
    let headers: String = headers
        .map(|name| format!("#include <rdma/{name}.h>\n"))
        .collect();
    format!("#include <stddef.h>\n{headers}{checks}")
}

#[test]
fn the_layout_is_that_of_the_headers() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("layout.c");
    let compile = |text: &str| {
        std::fs::write(&source, text).unwrap();
        Command::new("cc")
            .arg("-fsyntax-only")
            .arg(&source)
            .output()
    };
    let there = compile("#include <rdma/fabric.h>\n");
    if !there.is_ok_and(|done| done.status.success()) {
        eprintln!("skipped: no C compiler with the headers of libfabric (libfabric-dev)");
        return;
    }
    let done = compile(&program()).unwrap();
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let wrong = compile(&program().replace("tclass) == ", "tclass) == 8 + ")).unwrap();
    assert!(!wrong.status.success(), "a wrong offset must be found");
}

/// The library, or `None` where it is not installed.
fn installed() -> Option<Libfabric> {
    match Libfabric::load(OsStr::new(Libfabric::NAME)) {
        Ok(library) => Some(library),
        Err(LoadError::NotFound { .. }) => {
            eprintln!("skipped: libfabric is not installed (libfabric1)");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_library_that_is_not_there_is_a_state_and_no_fault() {
    let error = Libfabric::load(OsStr::new("libforebay-none.so.9")).unwrap_err();
    let name = "libforebay-none.so.9".to_owned();
    assert_eq!(error, LoadError::NotFound { name });
}

#[test]
fn what_is_no_libfabric_is_refused_by_name() {
    let foreign = Libfabric::load(OsStr::new("libm.so.6")).unwrap_err();
    assert!(matches!(&foreign, LoadError::Foreign { symbol, .. } if symbol == "fi_version"));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "no library").unwrap();
    let damaged = Libfabric::load(file.path().as_os_str()).unwrap_err();
    assert!(matches!(damaged, LoadError::Unloadable { .. }), "{damaged}");
}

#[test]
fn a_library_of_before_traffic_classes_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (source, library) = (folder.path().join("old.c"), folder.path().join("libold.so"));
    std::fs::write(
        &source,
        "unsigned fi_version(void) { return 1u << 16 | 8; }\n",
    )
    .unwrap();
    let made = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .status();
    if !made.is_ok_and(|made| made.success()) {
        eprintln!("skipped: no C compiler");
        return;
    }
    let error = Libfabric::load(library.as_os_str()).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("is libfabric 1.8, and 1.9 or later is needed"),
        "{error}"
    );
}

#[test]
fn the_tcp_provider_offers_remote_reads_on_this_machine() {
    let Some(library) = installed() else { return };
    assert!(library.version() >= INTERFACE);
    let providers = library.providers().unwrap();
    assert!(
        providers.iter().any(|provider| provider.name == "tcp"),
        "{providers:?}"
    );
    let offers = library.offers("tcp", Want::RemoteReads).unwrap();
    for offer in &offers {
        assert_eq!(offer.core(), "tcp");
        assert_eq!(offer.endpoint, Endpoint::ReliableDatagram);
        assert!(offer.capabilities.remote_reads(), "{offer:?}");
        assert!(
            offer.max_message_bytes > 0 && !offer.domain.is_empty(),
            "{offer:?}"
        );
    }
    let all = library.offers("tcp", Want::Anything).unwrap();
    assert!(all.len() >= offers.len());
}

#[test]
fn a_provider_that_is_not_there_says_so_in_libfabrics_words() {
    let Some(library) = installed() else { return };
    let refused = library.offers("forebay-none", Want::Anything).unwrap_err();
    assert!(refused.is_nothing_there(), "{refused}");
    assert!(
        refused
            .to_string()
            .starts_with("provider `forebay-none` refuses: "),
        "{refused}"
    );
    let name = library.offers("a\0b", Want::Anything).unwrap_err();
    assert_eq!(
        name.to_string(),
        "`a\\u{0}b` is no name of a provider: it has a zero byte"
    );
}
