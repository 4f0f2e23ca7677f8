"""Every read of the tests of queries gives the same rows in the process and on Spark.

The tests are those of the process, with a graph that asks both engines and compares their answers.
"""

from tests.unit.query.test_plan import *  # noqa: F403
from tests.unit.query.test_reads import *  # noqa: F403
from tests.unit.query.test_search import *  # noqa: F403
from tests.unit.query.test_stages import *  # noqa: F403

# What these say is about the process alone: how it behaves in many threads, and how often it asks a model.
del test_queries_in_many_threads_do_not_see_each_other  # noqa: F821
del test_a_text_is_embedded_with_the_model_of_the_property  # noqa: F821
# Spark cannot count that far, and says so.
del test_a_page_may_be_beyond_all_rows  # noqa: F821
