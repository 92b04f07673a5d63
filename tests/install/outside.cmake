# The CMakeLists.txt of a program outside the project.
cmake_minimum_required(VERSION 3.25)
project(outside LANGUAGES C CXX)
find_package(lockstep 0.1 REQUIRED)
add_executable(consumer consumer.c)
add_executable(consumer_cpp consumer_cpp.cpp)
target_link_libraries(consumer PRIVATE lockstep::lockstep)
target_link_libraries(consumer_cpp PRIVATE lockstep::shared)
