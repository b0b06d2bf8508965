//! The result for programs: one object.

use crate::{
    Backend, BenchReport, ROUNDS,
    bench_node::PAYLOAD_BYTES,
    figures::Rounds,
    measure::{Goal, Measure},
    raw::{
        RAW_BATCH,
        postgres::{RAW_CONNECTIONS, SETTINGS},
        sqlite::RAW_PRAGMAS,
    },
};
use serde_json::{Value, json};

impl BenchReport {
    /// All numbers by name, `ratios` of ours to raw or echo, and `targets` that passed or did not.
    pub fn json(&self) -> Value {
        let ratios = self.by_key(|measure| measure.ratio().map(Value::from));
        let targets = self.by_key(|measure| Some(target(measure, measure.goal?)));
        let mut object = json!({
            "date": self.machine.date,
            "cores": self.machine.cores,
            "othersShare": self.machine.others_share,
            "fileSystem": self.machine.file_system,
            "releaseBuild": !cfg!(debug_assertions),
            "jobs": self.settings.jobs,
            "deep": self.settings.deep,
            "beside": self.beside.name(),
            "rounds": ROUNDS,
            "payloadBytes": PAYLOAD_BYTES,
            "rawBatch": RAW_BATCH,
            "numbers": self.by_key(|measure| Some(numbers(measure))),
            "ratios": ratios,
            "targets": targets,
        });
        match &self.machine.backend {
            Backend::Sqlite(version) => {
                object["sqlite"] = (*version).into();
                object["rawPragmas"] = RAW_PRAGMAS.into();
            }
            Backend::Postgres(server) => {
                object["postgres"] = server.version.as_str().into();
                for (name, value) in &server.durability {
                    object["promises"][name] = value.as_str().into();
                }
                object["rawConnections"] = RAW_CONNECTIONS.into();
                object["rawSettings"] = SETTINGS.into();
            }
        }
        object
    }

    fn by_key(&self, value: impl Fn(&Measure) -> Option<Value>) -> Value {
        let all = self.measures.iter();
        all.filter_map(|measure| Some((measure.key, value(measure)?))).collect()
    }
}

fn numbers(measure: &Measure) -> Value {
    let mut object = json!({
        "unit": measure.unit.names().1,
        "ours": measure.ours.median(),
        "oursRounds": measure.ours.0,
    });
    if let Some(Rounds(rounds)) = &measure.raw {
        object["raw"] = measure.raw.as_ref().map(Rounds::median).into();
        object["rawRounds"] = rounds.clone().into();
    }
    object
}

fn target(measure: &Measure, goal: Goal) -> Value {
    let (value, bound, limit) = match goal {
        Goal::RatioAtLeast(least) => (measure.ratio(), "atLeast", least),
        Goal::RatioAtMost(most) => (measure.ratio(), "atMost", most),
        Goal::AtLeast(least) => (Some(measure.ours.median()), "atLeast", least),
        Goal::AtMost(most) => (Some(measure.ours.median()), "atMost", most),
    };
    json!({ "value": value, bound: limit, "pass": measure.is_met() })
}

#[cfg(test)]
mod tests {
    use crate::report::example;

    #[test]
    fn ratios_and_targets_have_their_names() {
        let json = example().json();
        for key in ["whole_lives", "submit_one_by_one", "drain", "idle_start_p50", "drain_deep"] {
            assert!(json["ratios"][key].as_f64().is_some_and(|ratio| ratio > 0.0), "{key}: {json}");
            assert!(json["targets"][key]["pass"].is_boolean(), "{key}: {json}");
        }
        assert_eq!(json["ratios"].get("peak_memory"), None);
        assert_eq!(json["targets"]["peak_memory"]["pass"], false);
        assert_eq!(json["numbers"]["whole_lives"]["oursRounds"][1], 31_000.0);
    }
}
