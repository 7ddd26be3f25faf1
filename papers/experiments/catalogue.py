"""All experiments, by the names of their figures and tables."""

from __future__ import annotations

from papers.experiments import (
    aggregate_baselines,
    aggregate_targets,
    changes,
    concurrent_queries,
    hybrid_correlated,
    hybrid_holistic,
    hybrid_optimizer,
    hybrid_plans,
    in_order,
    in_order_analysis,
    in_order_live,
    join_baselines,
    join_targets,
    overhead,
    parameters,
    rate_or_time,
    rate_service,
    rate_weather,
    rate_windows,
    steady_joins,
    window_graph_joins,
    window_joins,
    zoo,
)
from papers.experiments.experiment import Experiment
from slackwater.core.errors import UsageError

EXPERIMENTS: tuple[Experiment, ...] = (
    join_baselines.BASELINES,
    aggregate_baselines.BASELINES,
    join_targets.BY_TARGET,
    join_targets.BY_PERIOD,
    aggregate_targets.ON_VELOCITIES_1,
    aggregate_targets.ON_VELOCITIES_2,
    parameters.INTERVAL,
    parameters.G_ON_JOINS,
    parameters.G_ON_SUMS,
    parameters.RETROSPECT,
    overhead.ON_JOINS,
    overhead.ON_SUMS,
    changes.CHANGES_OF_STREAMS,
    steady_joins.STEADY_JOINS,
    zoo.ZOO_OF_DISORDER,
    window_joins.NESTED_LOOPS,
    window_joins.HASHES,
    window_joins.BY_STREAMS,
    window_joins.BY_STORES,
    window_joins.CHANGING_RATE,
    window_graph_joins.APPROACHES,
    window_graph_joins.PATH,
    in_order_analysis.BY_COST,
    in_order_analysis.BY_RATE,
    in_order.BY_COST,
    in_order.BY_RATE,
    in_order_live.IN_REAL_TIME,
    rate_service.BREAKDOWN,
    rate_service.CYCLE,
    rate_windows.EXAMPLE,
    rate_windows.SINGLE,
    rate_windows.DOUBLE,
    rate_weather.START,
    rate_weather.STORMY,
    rate_weather.REORDERED,
    rate_or_time.RATE_OR_TIME,
    concurrent_queries.BASELINES,
    concurrent_queries.BY_PLACEMENT,
    concurrent_queries.BY_ADAPTATION,
    hybrid_correlated.CORRELATED,
    hybrid_optimizer.JOINS,
    hybrid_optimizer.QUERIES_1_TO_6,
    hybrid_plans.PLANS,
    hybrid_plans.CHECK,
    hybrid_holistic.HOLISTIC,
)


def experiment_of(name: str) -> Experiment:
    """The experiment behind an ID, by whichever paper it is named.

    >>> experiment_of("004-fig4.13").id
    '003-fig7'
    """
    for experiment in EXPERIMENTS:
        if name in (experiment.id, *experiment.also):
            return experiment
    raise UsageError(f"there is no experiment '{name}'; `slackwater reproduce --list` names them")
