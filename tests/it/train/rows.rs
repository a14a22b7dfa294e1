//! Rows become trees; what cannot be trained on is named.

use topalign::dataset::{Message, PairKind};
use topalign::token::ChatTokenizer;
use topalign::train::{DropReason, encode_dpo, encode_sft};

use super::tiny;

fn tokenizer() -> (ChatTokenizer, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    tiny::write(folder.path(), 1, true);
    (ChatTokenizer::load(folder.path()).unwrap(), folder)
}

#[test]
fn a_supervised_row_is_a_tree_with_one_answer_and_one_terminator() {
    let (tokenizer, _folder) = tokenizer();
    let encoded = encode_sft(&tiny::sft_rows(3), &tokenizer, 100).unwrap();
    assert_eq!((encoded.trees.len(), encoded.rows, encoded.dropped.len()), (3, 3, 0));
    for tree in &encoded.trees {
        assert_eq!(tree.answers.len(), 1);
        assert_eq!(tree.answers[0].iter().filter(|&&id| id == 2).count(), 1);
        assert_eq!(tree.answers[0].last(), Some(&2));
    }
    assert_eq!(encoded.trees[1].row_ids, ["sft:1 (trace-1)"]);
    assert_eq!(tokenizer.decode(&encoded.trees[1].answers[0]).unwrap(), tiny::words(11, 3));
}

#[test]
fn rows_above_the_limit_are_dropped_counted_and_named() {
    let (tokenizer, _folder) = tokenizer();
    let rows = tiny::sft_rows(6);
    let lengths: Vec<usize> =
        encode_sft(&rows, &tokenizer, 100).unwrap().trees.iter().map(topalign::token::Tree::longest_row).collect();
    let limit = *lengths.iter().max().unwrap() - 1;
    let encoded = encode_sft(&rows, &tokenizer, limit).unwrap();
    let long: Vec<usize> = (0..6).filter(|&index| lengths[index] > limit).collect();
    assert_eq!(encoded.dropped.len(), long.len());
    assert_eq!(encoded.trees.len(), 6 - long.len());
    for (dropped, index) in encoded.dropped.iter().zip(long) {
        assert_eq!(dropped.row, format!("sft:{index} (trace-{index})"));
        assert_eq!((dropped.reason, dropped.tokens), (DropReason::TooLong, Some(limit + 1)));
    }
}

#[test]
fn nothing_left_to_train_on_is_an_error_that_says_what_would_fit() {
    let (tokenizer, _folder) = tokenizer();
    let error = encode_sft(&tiny::sft_rows(2), &tokenizer, 3).unwrap_err();
    assert_eq!(error.exit_status(), 2);
    assert!(error.hints()[0].contains("max_tokens"), "{error}");
    assert_eq!(encode_dpo(&[], &tokenizer, 3).unwrap_err().exit_status(), 2);
}

#[test]
fn pairs_of_one_prompt_and_chosen_answer_are_one_tree() {
    let (tokenizer, _folder) = tokenizer();
    let mut pairs = tiny::pairs(2);
    pairs.swap(1, 4);
    let encoded = encode_dpo(&pairs, &tokenizer, 100).unwrap();
    assert_eq!(encoded.trees.len(), 2);
    assert!(encoded.trees.iter().all(|tree| tree.answers.len() == 4));
    // Row 4 was swapped to place 1, so its tree begins there and its pairs keep the file's order.
    assert_eq!(encoded.trees[1].row_ids[0], "dpo:1 (trace-1)");
    assert_eq!(encoded.kinds[1][0], Some(PairKind::OverDisclosure));
    assert_eq!(encoded.trees[0].row_ids, ["dpo:0 (trace-0)", "dpo:0 (trace-0)", "dpo:2 (trace-0)", "dpo:4 (trace-0)"]);
}

#[test]
fn a_pair_whose_answers_are_equal_tokens_is_dropped_with_the_reason() {
    let (tokenizer, _folder) = tokenizer();
    let mut pairs = tiny::pairs(1);
    pairs[1].rejected = vec![Message::assistant(format!("{} ", pairs[1].chosen[0].content))];
    let encoded = encode_dpo(&pairs, &tokenizer, 100).unwrap();
    assert_eq!(encoded.trees[0].answers.len(), 3);
    assert_eq!(encoded.kinds[0], [Some(PairKind::ExplicitLeak), Some(PairKind::OverRefusal)]);
    assert_eq!(encoded.dropped[0].row, "dpo:1 (trace-0)");
    assert_eq!(encoded.dropped[0].reason, DropReason::ChosenEqualsRejected);
}

#[test]
fn every_malformed_row_is_named_at_once() {
    let (tokenizer, _folder) = tokenizer();
    let mut rows = tiny::sft_rows(4);
    rows[1].messages.pop();
    rows[3].messages = vec![Message::assistant("w1")];
    let error = encode_sft(&rows, &tokenizer, 100).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("sft:1 (trace-1)") && text.contains("sft:3 (trace-3)") && text.lines().count() == 2,
        "{text}"
    );

    let mut pairs = tiny::pairs(2);
    pairs[4].rejected.clear();
    let error = encode_dpo(&pairs, &tokenizer, 100).unwrap_err();
    assert!(error.to_string().contains("dpo:4 (trace-1)"), "{error}");
}
