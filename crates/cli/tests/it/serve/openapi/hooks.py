"""What schemathesis may not do here, and one check of our own."""

import os

import schemathesis

WAIT_SECONDS_MAX = 1
# The job of the document's examples.
EXAMPLE = "01a1e17f-dec5-7ff8-81e3-73a73ebb528a"


def shortened(values, name):
    """A lawful wait becomes a short one; what is unlawful stays, for it must be refused."""
    if isinstance(values, dict) and isinstance(values.get(name), int) and WAIT_SECONDS_MAX < values[name] <= 60:
        values[name] = WAIT_SECONDS_MAX


@schemathesis.hook
def before_call(context, case, kwargs):
    shortened(case.query, "wait")
    shortened(case.body, "waitSeconds")
    name = case.operation.definition.raw["operationId"]
    # Else every request would end at "there is no such job". It is not erased, so that the others
    # find it.
    if case.path_parameters.get("id") == EXAMPLE and name != "eraseJob":
        case.path_parameters["id"] = os.environ["CONSIGN_TEST_JOB"]
    # A test that revokes the key shown here gets nothing but 401 for the rest of the run.
    if name in ("revokeKey", "rotateKey") and case.path_parameters.get("id") == os.environ["CONSIGN_TEST_KEY_ID"]:
        case.path_parameters["id"] = "0" * 16
    # A ready-made handler would run programs and call addresses that no test chose.
    if name in ("setType", "changeType") and isinstance(case.body, dict):
        case.body.pop("handler", None)


@schemathesis.check
def code_is_documented(ctx, response, case):
    """A problem has a code that the document lists under its status."""
    documented = case.operation.definition.raw["responses"].get(str(response.status_code))
    if documented is None or response.headers.get("content-type") != ["application/problem+json"]:
        return
    codes = documented["content"]["application/problem+json"]["examples"]
    code = response.json()["errorCode"]
    assert code in codes, f"{code} is not documented for {response.status_code}"
