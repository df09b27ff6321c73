use std::mem::{offset_of, size_of};
use std::process::Command;

use super::*;

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
    }
}

/// A C program that ends well only if the headers agree with us.
fn program() -> String {
    let mut checks = vec![
        format!("FI_PROV_ATTR_ONLY == {PROVIDERS_ONLY}ULL"),
        format!("FI_CONTEXT == {CONTEXT}ULL"),
        format!("FI_EP_RDM == {}", Endpoint::RELIABLE_DATAGRAM),
        format!(
            "(FI_MSG | FI_RMA | FI_READ | FI_REMOTE_READ) == {}ULL",
            Capabilities::REMOTE_READS
        ),
        format!(
            "(FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT) \
             == {LINK_MEMORY}"
        ),
    ];
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
    format!("#include <stddef.h>\n#include <rdma/fabric.h>\n{checks}")
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
