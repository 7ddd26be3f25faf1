"""`controller = 'model' | 'pd'`: the controllers of 003 and 004 as published.

Registered here by name, for recall and for error.
"""

from __future__ import annotations

from slackwater.core.errors import UsageError
from slackwater.disorder.controllers import SlackController
from slackwater.published.controllers.error import ModelError, PdError
from slackwater.published.controllers.recall import SELECTIVITIES, ModelRecall, PdRecall
from slackwater.quality.registry import ERROR_CONTROLLERS, RECALL_CONTROLLERS, RecallTerms


def _model(terms: RecallTerms) -> SlackController:
    first, selectivity = terms.options.initial_slack, terms.options.selectivity or SELECTIVITIES[0]
    if selectivity not in SELECTIVITIES:
        raise UsageError(f"option selectivity = '{selectivity}': there is {', '.join(SELECTIVITIES)}")
    return ModelRecall(terms.quality, terms.windows, terms.config, selectivity, first, terms.retention)


def _pd(terms: RecallTerms) -> SlackController:
    return PdRecall(terms.quality, terms.windows, terms.config, terms.options.initial_slack, terms.retention)


RECALL_CONTROLLERS.register("model", _model)
RECALL_CONTROLLERS.register("pd", _pd)
ERROR_CONTROLLERS.register("model", ModelError)
ERROR_CONTROLLERS.register("pd", PdError)
