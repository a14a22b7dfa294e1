//! Requests that are numbered forms: an answer fills them in, field by field, under the same numbers.
//!
//! In: a request and the facts that answer it. Out: the facts in the form's order, called as the form calls them.

use super::fact::Fact;

/// The names of a form's fields, which stand on lines `1. name`, `2. name` and so on; absent if the text has no such line, or if
/// their numbers are not in order.
fn fields(goal: &str) -> Option<Vec<&str>> {
    let numbered = goal.lines().filter_map(|line| {
        let (number, name) = line.split_once(". ")?;
        Some((number.parse::<usize>().ok()?, name.trim()))
    });
    let fields: Vec<(usize, &str)> = numbered.collect();
    let in_order = fields.iter().enumerate().all(|(index, (number, _))| *number == index + 1);
    (in_order && !fields.is_empty()).then(|| fields.into_iter().map(|(_, name)| name).collect())
}

/// Puts the facts in the order of the request's form and names them as it does. False, and nothing is changed, if the request is
/// no form or its fields are not these facts.
pub(super) fn arrange(facts: &mut [Fact], goal: &str) -> bool {
    let Some(names) = fields(goal).filter(|names| names.len() == facts.len()) else { return false };
    let mut left: Vec<Fact> = facts.to_vec();
    let mut placed: Vec<Option<Fact>> = names
        .iter()
        .map(|name| Some(left.remove(left.iter().position(|fact| fact.label.eq_ignore_ascii_case(name))?)))
        .collect();
    // A field with a name of its own is the one fact that no other field is named after.
    if let ([None], 1) = (&placed.iter().filter(|fact| fact.is_none()).collect::<Vec<_>>()[..], left.len())
        && let Some(place) = placed.iter_mut().find(|fact| fact.is_none())
    {
        *place = left.pop();
    }
    let Some(placed) = placed.into_iter().collect::<Option<Vec<Fact>>>() else { return false };
    for ((fact, found), name) in facts.iter_mut().zip(placed).zip(names) {
        *fact = Fact { heading: None, label: name.to_owned(), ..found };
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::fact::fact;
    use super::*;

    fn facts() -> Vec<Fact> {
        vec![fact("T1", "/gym_fee", "$9.50"), fact("T2", "/slip", "WR-8"), fact("T2", "/entries/0/remark", "chess")]
    }

    #[test]
    fn facts_take_the_order_and_the_names_of_the_form() {
        let mut facts = facts();
        assert!(arrange(&mut facts, "Fill in:\n1. slip\n2. remark noted for the slip\n3. Gym fee"));
        let told: Vec<(&str, &str)> = facts.iter().map(|fact| (fact.label.as_str(), fact.text.as_str())).collect();
        assert_eq!(told, [("slip", "WR-8"), ("remark noted for the slip", "chess"), ("Gym fee", "$9.50")]);
    }

    #[test]
    fn other_requests_leave_the_facts_alone() {
        for goal in [
            "Give me the slip, the gym fee and the remark.",
            "Fill in:\n1. slip\n2. gym fee",
            "Fill in:\n1. slip\n2. colour\n3. size",
            "Fill in:\n2. slip\n1. gym fee\n3. remark",
        ] {
            let mut arranged = facts();
            assert!(!arrange(&mut arranged, goal), "{goal}");
            assert_eq!(arranged, facts(), "{goal}");
        }
    }
}
