//! What blocks go over between nodes.

use std::fmt;

use forebay_transport::{FabricPlan, Label};

use super::{Rules, ServeSettings};

/// What blocks go over. Everything else goes over TCP in any case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP too.
    Tcp,
    /// A fabric: without one the node does not start.
    Fabric(FabricPlan),
    /// A fast fabric where there is one, else TCP.
    Auto(FabricPlan),
}

impl Transport {
    /// The label of its traffic class, if one was named.
    pub(crate) fn label(&self) -> Option<&'static str> {
        match self {
            Self::Tcp => None,
            Self::Fabric(plan) | Self::Auto(plan) => plan.label.map(Label::name),
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp => f.write_str("tcp"),
            Self::Fabric(plan) => match &plan.providers[..] {
                [provider] => write!(f, "libfabric:{provider}"),
                _ => f.write_str("libfabric"),
            },
            Self::Auto(_) => f.write_str("auto"),
        }
    }
}

impl Rules {
    /// `listen` is this node's `HOST:PORT`.
    pub(super) fn transport(
        &mut self,
        settings: &ServeSettings,
        dscp: Option<u8>,
        listen: &str,
    ) -> Transport {
        let host = listen.rsplit_once(':').map_or(listen, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let plan = |providers| FabricPlan {
            providers,
            label: settings.tclass.as_deref().and_then(Label::of_name),
            dscp,
            source: Some(host.to_owned()).filter(|host| !host.is_empty()),
        };
        if let Some(text) = &settings.tclass {
            self.check(Label::of_name(text).is_some(), || {
                let names = Label::ALL.map(|(_, name)| format!("`{name}`"));
                format!("`tclass` must be one of {}: `{text}`", names.join(", "))
            });
        }
        let text = settings.transport.as_deref().unwrap_or("tcp");
        match text.split_once(':') {
            None if text == "tcp" => Transport::Tcp,
            None if text == "auto" => Transport::Auto(plan(FabricPlan::fast())),
            None if text == "libfabric" => {
                let mut providers = FabricPlan::fast();
                providers.push("tcp".to_owned());
                Transport::Fabric(plan(providers))
            }
            Some(("libfabric", provider)) if !provider.is_empty() => {
                Transport::Fabric(plan(vec![provider.to_owned()]))
            }
            _ => {
                self.check(false, || {
                    format!(
                        "`transport` must be `tcp`, `libfabric`, `libfabric:PROVIDER` or `auto`: \
                         `{text}`"
                    )
                });
                Transport::Tcp
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PlanError, ServePlan, Source};

    fn resolve(text: &str) -> Result<Transport, PlanError> {
        let text = format!("[serve]\nmembers = '[::1]:2'\nlisten = '[::1]:2'\n{text}");
        let settings = ServeSettings::from_toml(&text).unwrap();
        let plan = ServePlan::resolve(&[(Source::File, settings)], Some("/c".into()), |_| 1000);
        Ok(plan?.peers.unwrap().transport)
    }

    #[test]
    fn blocks_go_over_tcp_or_the_fabric_that_is_named() {
        assert_eq!(resolve("").unwrap(), Transport::Tcp);
        let plan = |providers: &[&str]| FabricPlan {
            providers: providers.iter().map(|name| (*name).to_owned()).collect(),
            label: Label::of_name("bulk-data"),
            dscp: Some(10),
            source: Some("::1".to_owned()),
        };
        let class = "tclass = 'bulk-data'\ndscp = 10";
        for (text, wanted) in [
            (
                "libfabric:tcp;ofi_rxm",
                Transport::Fabric(plan(&["tcp;ofi_rxm"])),
            ),
            (
                "libfabric",
                Transport::Fabric(plan(&["cxi", "efa", "verbs", "tcp"])),
            ),
            ("auto", Transport::Auto(plan(&["cxi", "efa", "verbs"]))),
        ] {
            let transport = resolve(&format!("transport = '{text}'\n{class}")).unwrap();
            assert_eq!(transport, wanted);
            assert_eq!(transport.to_string(), text);
        }
    }

    #[test]
    fn a_transport_or_a_class_that_there_is_not_is_refused_by_name() {
        for text in ["udp", "libfabric:", "tcp:1", "ucx:tcp"] {
            let PlanError(broken) = resolve(&format!("transport = '{text}'")).unwrap_err();
            assert!(
                broken[0].ends_with(&format!("or `auto`: `{text}`")),
                "{broken:?}"
            );
        }
        let PlanError(broken) = resolve("tclass = 'fast'").unwrap_err();
        assert!(broken[0].contains("`low-latency`") && broken[0].ends_with(": `fast`"));
    }
}
