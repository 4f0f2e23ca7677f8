"""What is counted about requests, as Prometheus reads it."""

from prometheus_client.parser import text_string_to_metric_families

from omnigraph.server.metrics import Metrics


def test_requests_are_counted_by_route_method_and_status() -> None:
    metrics = Metrics()
    counts = metrics.requests
    for seconds in (0.0005, 0.001, 0.003, 100):
        counts.count("/a", "POST", 200, seconds=seconds, received=10, sent=20, code=None)
    counts.count("/a", "BREW", 429, seconds=0.2, received=1, sent=2, code="too_busy")
    counts.in_flight, counts.cancelled = 3, 4
    samples = {
        (each.name, *sorted(each.labels.items())): each.value
        for family in text_string_to_metric_families(metrics.text().decode())
        for each in family.samples
    }
    labels = ("method", "POST"), ("route", "/a"), ("status", "200")
    assert samples["omnigraph_requests_total", *labels] == 4
    assert samples["omnigraph_requests_total", ("method", "other"), ("route", "/a"), ("status", "429")] == 1
    buckets = {key[1][1]: value for key, value in samples.items() if key[0] == "omnigraph_request_seconds_bucket"}
    assert (buckets["0.001"], buckets["0.0025"], buckets["0.005"], buckets["60.0"], buckets["+Inf"]) == (2, 2, 3, 4, 5)
    assert samples["omnigraph_request_seconds_count", ("route", "/a")] == 5
    assert samples["omnigraph_request_seconds_sum", ("route", "/a")] == 100.2045
    assert samples["omnigraph_received_bytes_total",] == 41
    assert samples["omnigraph_sent_bytes_total",] == 82
    assert samples["omnigraph_refused_total", ("code", "too_busy")] == 1
    assert samples["omnigraph_requests_in_flight",] == 3
    assert samples["omnigraph_cancelled_total",] == 4


def test_loads_are_counted_when_there_was_one() -> None:
    metrics = Metrics()
    assert b"omnigraph_loaded_records_total 0.0" in metrics.text()
    assert b"omnigraph_last_load" not in metrics.text()
    metrics.loads.count(3)
    metrics.loads.count(4)
    assert b"omnigraph_loaded_records_total 7.0" in metrics.text()
    assert b"omnigraph_last_load_timestamp_seconds" in metrics.text()
