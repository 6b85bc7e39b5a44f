"""Statistics, quantiles and Jain's index, compared with results computed by hand."""

from __future__ import annotations

import math

import pytest

from imtcp_lab.stats import distance, ensemble, jain, quantile, student_t95


def test_three_seeds_give_the_mean_and_students_interval():
    e = ensemble([1.0, 2.0, 3.0])
    assert (e.count, e.mean, e.deviation, e.lowest, e.highest) == (3, 2.0, 1.0, 1.0, 3.0)
    # t for two degrees of freedom, over the root of three.
    assert e.half_width_95 == pytest.approx(4.303 / math.sqrt(3))


def test_one_seed_has_no_spread_to_speak_of():
    e = ensemble([5.0])
    assert e.mean == 5.0
    assert math.isnan(e.deviation)
    assert math.isnan(e.half_width_95)


def test_what_was_not_measured_is_left_out():
    assert ensemble([1.0, None, math.nan, 3.0]).mean == 2.0
    assert ensemble([None]).count == 0


def test_students_t_is_right_beyond_its_table():
    assert student_t95(40) == pytest.approx(2.021, abs=1e-3)
    assert student_t95(120) == pytest.approx(1.980, abs=1e-3)
    with pytest.raises(ValueError, match="two values"):
        student_t95(0)


def test_quantiles_interpolate():
    assert quantile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.5
    assert quantile([10.0], 0.95) == 10.0
    assert quantile(list(range(101)), 0.95) == 95.0
    assert math.isnan(quantile([], 0.5))


def test_the_distance_of_distributions_is_the_most_by_which_their_shares_differ():
    assert distance([1.0, 2.0, 3.0, 4.0], [4.0, 3.0, 2.0, 1.0]) == 0
    # Up to 2 lie both values of the first, and one of three of the second.
    assert distance([1.0, 2.0], [1.5, 3.0, 4.0]) == pytest.approx(2 / 3)
    assert distance([1.0], [2.0]) == 1
    assert math.isnan(distance([], [1.0]))


def test_jain_is_one_for_equals_and_one_nth_for_a_monopoly():
    assert jain([3.0, 3.0, 3.0]) == pytest.approx(1.0)
    assert jain([9.0, 0.0, 0.0]) == pytest.approx(1 / 3)
    assert jain([1.0, 2.0, 3.0]) == pytest.approx(36 / (3 * 14))
    assert math.isnan(jain([0.0, 0.0]))
