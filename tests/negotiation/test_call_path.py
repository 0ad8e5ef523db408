import pytest
from msgspec.structs import astuple

from src.errors import ContentRejected, ServerError, TemplateRejected, TokensUnsupported, ToolsUnsupported
from src.negotiation.call_path import LOST_CALLS, NOTICES, ROLES_MERGED, SYSTEM_FOLDED, TEXT_ONLY, CallPath, Reason
from src.providers.server_errors import read_refusal
from tests.each import check_rows

NO_TOOLS = ToolsUnsupported('"auto" tool choice requires --enable-auto-tool-choice', status=400)
TEMPLATE = TemplateRejected("Conversation roles must alternate", status=400)
SENT = frozenset({"return_token_ids", "structured_outputs", "strict", "stream_options"})


def refused(status, body):
    return ServerError("The server refused.", status=status, body=body)


def test_a_field_in_a_tool_that_a_server_does_not_know_is_left_out_and_the_calls_stay_native():
    body = b'{"error": {"message": "Unknown parameter: \'tools[0].function.strict\'."}}'
    path, notice = astuple(CallPath().downgrade(read_refusal(400, body), SENT))
    assert (path.mode, path.disabled_fields, notice) == ("native", ("strict",), "")


def test_without_a_tool_parser_the_template_shows_the_tools_where_it_can():
    path, notice = astuple(CallPath(template_shows_tools=True).downgrade(NO_TOOLS, SENT))
    assert (path.mode, notice) == ("template", NOTICES["template"])


@pytest.mark.parametrize("mode", ["native", "template"])
def test_else_calls_go_through_the_text(mode):
    path, notice = astuple(CallPath(mode, template_shows_tools=mode == "template").downgrade(NO_TOOLS, SENT))
    assert (path.mode, notice) == ("text", NOTICES["text"])


def test_a_server_without_tokens_is_asked_by_the_mode_after_them():
    path = CallPath("tokens").leave_tokens(TokensUnsupported("Not Found", status=404)).path
    assert (path.mode, path.reason, path.disabled_fields) == ("native", Reason.NO_TOKENS, ("tokens",))


def test_tokens_that_an_answer_without_a_parser_lacks_leave_it_refused():
    with pytest.raises(TokensUnsupported):
        CallPath().for_raw_turn.leave_tokens(TokensUnsupported("The server generates token ids without their text."))


def test_on_the_text_path_there_is_nothing_left_to_give_up():
    with pytest.raises(ToolsUnsupported):
        CallPath("text", template_shows_tools=True).downgrade(NO_TOOLS, SENT)


def test_a_template_gets_merged_roles_then_no_system_prompt_then_nothing_more():
    path, merged = astuple(CallPath().downgrade(TEMPLATE, SENT))
    path, folded = astuple(path.downgrade(TEMPLATE, SENT))
    assert (merged, folded) == (ROLES_MERGED, SYSTEM_FOLDED)
    with pytest.raises(TemplateRejected):
        path.downgrade(TEMPLATE, SENT)


@check_rows(
    "refusal, field",
    [
        (refused(400, "Extra inputs are not permitted: return_token_ids"), "return_token_ids"),
        (refused(422, "body.stream_options: extra fields not permitted"), "stream_options"),
        (refused(400, "Unrecognized request argument supplied: strict"), "strict"),
        (refused(400, "structured_outputs: no such field"), "structured_outputs"),
    ],
)
def test_a_field_that_the_server_refuses_is_left_out_without_a_word(refusal, field):
    path, notice = astuple(CallPath().downgrade(refusal, SENT))
    assert (path.disabled_fields, notice) == ((field,), "")
    with pytest.raises(ServerError):
        path.downgrade(refusal, SENT)


def test_a_refusal_that_does_not_say_which_field_leaves_out_all():
    nameless = refused(400, "Extra inputs are not permitted")
    path, notice = astuple(CallPath().downgrade(nameless, SENT))
    assert (set(path.disabled_fields), notice) == (SENT, "")
    with pytest.raises(ServerError):
        path.downgrade(nameless, SENT)


def test_one_that_names_a_field_of_the_user_leaves_out_none():
    with pytest.raises(ServerError):
        CallPath().downgrade(refused(422, "body.top_m: Extra inputs are not permitted"), SENT)


def test_a_refusal_of_the_tools_leads_to_text_only_where_the_tools_are_ours():
    refusal = refused(400, "tools.0.function.parameters: not a schema")
    assert CallPath().downgrade(refusal, SENT).path.mode == "text"
    with pytest.raises(ServerError):
        CallPath().downgrade(refusal, SENT, are_tools_ours=False)


def test_a_model_that_takes_nothing_but_text_is_sent_nothing_else():
    refusal = ContentRejected("tiny is not a multimodal model", status=400)
    path, notice = astuple(CallPath().downgrade(refusal, SENT))
    assert notice == TEXT_ONLY
    with pytest.raises(ContentRejected):
        path.downgrade(refusal, SENT)


def test_a_server_that_takes_fewer_images_is_sent_fewer():
    refusal = ContentRejected("At most 2 image(s) may be provided in one prompt.", status=400)
    refusal.max_media = 2
    path, notice = astuple(CallPath().downgrade(refusal, SENT))
    assert (path.max_media, path.text_only, path.is_learned) == (2, False, True)
    assert notice == "The server takes 2 images at once; of older ones the model is told that they were left out."
    assert path.join(CallPath()).max_media == 2
    assert path.downgrade(refusal, SENT).path.text_only  # it does not take even these


@pytest.mark.parametrize("field", ["strict", "structured_outputs"])
def test_a_grammar_that_cannot_be_compiled_is_that_of_the_field_that_brought_it(field):
    refusal = refused(400, "Invalid grammar specification: 'triggers'")  # vLLM 0.32
    path, notice = astuple(CallPath().downgrade(refusal, frozenset({field, "stream_options"})))
    assert (path.disabled_fields, notice) == ((field,), "")


def test_a_server_that_speaks_of_calls_and_gives_none_is_asked_for_text_from_then_on():
    path, notice = astuple(CallPath().disable_native())
    assert (path.mode, path.is_learned, notice) == ("text", True, LOST_CALLS)


def test_a_refusal_of_what_was_not_sent_is_an_error():
    with pytest.raises(ServerError):
        CallPath().downgrade(refused(400, "structured_outputs: bad"), frozenset({"strict"}))


def test_an_error_that_names_nothing_is_an_error():
    with pytest.raises(ServerError):
        CallPath().downgrade(refused(400, "temperature must be below 2"), SENT)


def test_what_is_learnt_can_be_kept_and_had_back():
    path = CallPath("template", Reason.NO_PARSER, True, disabled_fields=("strict",))
    assert CallPath.from_dict(path.to_dict()) == path


@check_rows(
    "stored",
    [
        {"mode": "telepathy"},
        {"nonsense": 1},
        {"without": None},
        {"without": [1]},
        {"alternate": "no"},
        {"why": 1},
        {"why": "x"},
    ],
)
def test_what_was_not_kept_by_us_is_refused(stored):
    with pytest.raises((TypeError, ValueError)):
        CallPath.from_dict(stored)


def test_what_the_user_chose_says_nothing_of_the_server():
    chosen = CallPath().choose("text")
    assert (chosen.mode, chosen.reason, chosen.is_learned) == ("text", Reason.CHOSEN, False)
    assert not CallPath("text", Reason.CONFIGURED).is_learned
    assert not CallPath().is_learned
    assert CallPath(alternate=True).is_learned


def test_a_mended_history_is_no_fact_about_the_server():
    path = CallPath(mended=True)
    assert path == CallPath()
    assert "mended" not in path.to_dict()
    assert not CallPath().join(path).mended
    with pytest.raises(ValueError, match="no such path"):
        CallPath.from_dict({"mended": True})


def test_whether_a_conversation_s_own_mode_shows_thoughts_is_no_fact_about_another_mode():
    assert CallPath("text", Reason.REFUSED_HERE, shows_thoughts=False).for_others.shows_thoughts is None
